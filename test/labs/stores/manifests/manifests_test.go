package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const deploy = "../../../../deploy/"

// serviceMonitors is the custom resource of the Prometheus operator, as far as
// the manifests use it: a field that is not here would be refused.
const serviceMonitors = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors, singular: servicemonitor}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [selector, endpoints]
              properties:
                selector:
                  type: object
                  properties:
                    matchLabels: {type: object, additionalProperties: {type: string}}
                endpoints:
                  type: array
                  items:
                    type: object
                    properties:
                      port: {type: string}
                      path: {type: string}
                      interval: {type: string, pattern: "^([0-9]+(ms|s|m|h))+$"}
                      scrapeTimeout: {type: string, pattern: "^([0-9]+(ms|s|m|h))+$"}
`

func parsed(t *testing.T, doc string) (o object) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// A server takes half a minute to start, so that all tests share one.
func TestOnARealServer(t *testing.T) {
	srv := kubelab.Start(t)
	c := newCluster(t, srv.Admin())
	c.define(parsed(t, serviceMonitors), object{"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor"})
	for _, dir := range []string{"monitoring", "leases", "announce", "label", "../examples/operator/deploy"} {
		t.Run(dir, func(t *testing.T) { c.in(t).all(kustomized(t, deploy+dir), "leader") })
	}
	t.Run("run.yaml", func(t *testing.T) { c.in(t).all(documents(t, deploy+"run.yaml"), "leader") })
	t.Run("NothingElse", func(t *testing.T) { c.in(t).appliedAll(deploy, deploy+"../examples/operator/deploy") })
	t.Run("Rights", func(t *testing.T) { rights(t, srv, c) })
	t.Run("Leases", func(t *testing.T) { rightsOfTheLeases(t, srv, c) })
	t.Run("Announce", func(t *testing.T) { announces(t, srv, c) })
	t.Run("Label", func(t *testing.T) { labels(t, srv, c) })
}

// appliedAll demands that each object of the files below the directories was
// applied. A file without a kind is not for Kubernetes, and what is for kustomize
// is not an object.
func (c *cluster) appliedAll(dirs ...string) {
	c.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			for _, o := range documents(c.T, path) {
				if text(o, "kind") != "" && !strings.HasPrefix(text(o, "apiVersion"), "kustomize.config.k8s.io/") && !c.applied[identity(o)] {
					c.Errorf("%s: %s was not applied", path, identity(o))
				}
			}
			return nil
		})
		if err != nil {
			c.Fatal(err)
		}
	}
}

// all applies objects, twice, since what was applied once has to stay
// appliable, and asks whether the pods of them would be let in.
func (c *cluster) all(objects []object, namespace string) {
	c.Helper()
	for range 2 {
		for _, o := range objects {
			if err := c.apply(o, namespace); err != nil {
				c.Errorf("%s %s: %v", text(o, "kind"), text(o, "metadata", "name"), err)
			}
			if text(o, "kind") == "Namespace" {
				c.account(text(o, "metadata", "name"))
			}
		}
	}
	pods := 0
	for _, o := range objects {
		if template, ok := at(o, "spec", "template").(object); ok {
			c.admits(o, template, namespace)
			pods++
		}
	}
	if pods == 0 {
		c.Error("no pods")
	}
}

// account makes the account that controllers make in each namespace.
func (c *cluster) account(namespace string) {
	c.Helper()
	err := c.do(post, "/api/v1/namespaces/"+namespace+"/serviceaccounts", object{"metadata": object{"name": "default"}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.Fatal(err)
	}
}

// admits demands that the namespace, which enforces the standard restricted,
// takes a pod of the template, and not one that runs as root.
func (c *cluster) admits(owner, template object, namespace string) {
	c.Helper()
	pod := copied(c.T, object{"metadata": object{"generateName": "x-", "labels": at(template, "metadata", "labels")}, "spec": template["spec"]})
	spec, _ := pod["spec"].(object) // it was applied
	volumes, _ := spec["volumes"].([]any)
	claims, _ := at(owner, "spec", "volumeClaimTemplates").([]any)
	for _, claim := range claims {
		volumes = append(volumes, object{"name": text(claim, "metadata", "name"), "emptyDir": object{}})
	}
	if volumes != nil {
		spec["volumes"] = volumes
	}
	path := "/api/v1/namespaces/" + namespace + "/pods"
	what := fmt.Sprintf("a pod of %s %s", text(owner, "kind"), text(owner, "metadata", "name"))
	if err := c.do(post, path, pod, "dryRun", "All", "fieldValidation", "Strict"); err != nil {
		c.Errorf("%s: %v", what, err)
	}
	security, _ := spec["securityContext"].(object)
	security["runAsNonRoot"] = false
	refused(c.T, what+" that may run as root", c.do(post, path, pod, "dryRun", "All"))
}

func copied(t *testing.T, o object) (c object) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rightsOfTheLeases elects with the account of deploy/leases, which may do that
// and nothing else.
func rightsOfTheLeases(t *testing.T, srv *kubelab.Server, c *cluster) {
	const namespace, account = "leader", "reports"
	config := srv.Account(namespace, account)
	group := groupOf(t)
	a, b := elect(t, config, namespace, group, "pod-1"), elect(t, config, namespace, group, "pod-2")
	natslab.Eventually(t, "one leads", func(context.Context) error { return leads(a, b) })
	first, second := a, b
	if b.IsLeader() {
		first, second = b, a
	}
	if err := first.Pause(trial.Within(t), "the control record may be written"); err != nil {
		t.Errorf("pause: %v", err)
	}
	if err := first.Resume(trial.Within(t)); err != nil {
		t.Errorf("resume: %v", err)
	}
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	natslab.Eventually(t, "the other leads", func(context.Context) error { return leads(second) })

	st, err := k8sstore.NewForConfig(config, k8sstore.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // it only reads
	report, err := st.Check(trial.Within(t), store.CheckRequest{Key: group, HeartbeatInterval: 2 * time.Second})
	if err != nil || len(report.Warnings) > 0 {
		t.Errorf("%v, and it warns of %q: without a watch it looks by the clock", err, report.Warnings)
	}

	own := newCluster(t, config)
	leases := "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
	other := object{"metadata": object{"name": "other"}}
	if err := c.do(post, leases, other); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"get another Lease":   own.do(http.MethodGet, leases+"/other", nil),
		"delete its own":      own.do(http.MethodDelete, leases+"/"+group, nil),
		"list all":            own.do(http.MethodGet, leases, nil),
		"read secrets":        own.do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/secrets", nil),
		"read pods":           own.do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", nil),
		"another namespace's": own.do(http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/default/leases/"+group, nil),
	} {
		refused(t, what, err)
	}
}

func leads(among ...leader.Election) error {
	for _, e := range among {
		if e.IsLeader() {
			return nil
		}
	}
	return fmt.Errorf("nobody: %+v", among[0].Status())
}

// groupOf is the group for which deploy/leases runs the command.
func groupOf(t *testing.T) string {
	t.Helper()
	for _, o := range documents(t, deploy+"leases/reports.yaml") {
		containers, _ := at(o, "spec", "template", "spec", "initContainers").([]any)
		for _, container := range containers {
			args, _ := at(container, "args").([]any)
			if i := slices.Index(args, any("run")); i >= 0 {
				env := fmt.Sprint(at(container, "env"))
				if !strings.Contains(env, "k8s://") {
					t.Errorf("it elects over %s", env)
				}
				return fmt.Sprint(args[i+1])
			}
		}
	}
	t.Fatal("nothing runs")
	return ""
}

func elect(t *testing.T, config *rest.Config, namespace, group, id string) leader.Election {
	t.Helper()
	st, err := k8sstore.NewForConfig(config, k8sstore.Options{Namespace: namespace, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: group, InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second, AcquireGrace: leader.GraceOff, DeleteOnStop: true,
	})
	if err == nil {
		err = e.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}
