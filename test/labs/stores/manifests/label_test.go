package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// labels runs the copies of deploy/label, each for its own pod, as its
// container has them run and with the rights of its account, and demands that
// each of the two Services leads to the copy that leads. No kube-proxy and no
// controller runs, so the test applies the selector of the first Service
// itself.
func labels(t *testing.T, srv *kubelab.Server, c *cluster) {
	const namespace = "leader"
	web := newCopies(t, srv, c, namespace)
	for range 3 {
		web.start()
	}
	first := web.route("")
	// A copy that ends hands over, and leaves no sign behind.
	leaves := web.processes[first]
	delete(web.processes, first)
	if err := leaves.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := leaves.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	second := web.route(first)
	// The label of one that is dead goes when another leads.
	if err := web.processes[second].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	delete(web.processes, second)
	last := web.route(second)
	if err := web.processes[last].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	web.eventually("nobody has the label", func(ctx context.Context) error {
		return web.leadsTo(ctx)
	})
}

// copies are the copies of web, by the names of their pods.
type copies struct {
	programs

	cluster              *cluster
	namespace            string
	template             object // of their pods
	kubeconfig           string // of their account
	nc                   *nats.Conn
	processes            map[string]*exec.Cmd
	bySelector, bySlices string // the Services
}

func newCopies(t *testing.T, srv *kubelab.Server, c *cluster, namespace string) *copies {
	t.Helper()
	server := natslab.Start(t)
	web := &copies{
		programs: programs{t, build(t, "examples/web"), server.URL()}, cluster: c, namespace: namespace, nc: server.Connect(t),
		processes: map[string]*exec.Cmd{},
	}
	for _, o := range kustomized(t, deploy+"label") {
		if identity(o) == "apps/v1 Deployment web" {
			web.template, _ = at(o, "spec", "template").(object)
		}
	}
	for _, o := range documents(t, deploy+"label/services.yaml") {
		if at(o, "spec", "selector") == nil {
			web.bySlices = text(o, "metadata", "name")
		} else {
			web.bySelector = text(o, "metadata", "name")
		}
	}
	account := text(web.template, "spec", "serviceAccountName")
	if account == "" || web.bySelector == "" || web.bySlices == "" {
		t.Fatalf("the account %q, and the Services %q and %q", account, web.bySelector, web.bySlices)
	}
	web.kubeconfig = srv.Kubeconfig(t, srv.Account(namespace, account), namespace)
	return web
}

func (w *copies) eventually(what string, f func(context.Context) error) {
	w.Helper()
	natslab.Eventually(w.T, what, f)
}

// get reads an object or a list.
func (w *copies) get(ctx context.Context, path, selector string, into any) error {
	request := w.cluster.client.Get().AbsPath("/api/v1/namespaces/" + w.namespace + path)
	if selector != "" {
		request = request.Param("labelSelector", selector)
	}
	raw, err := request.Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("%w: %s", err, raw)
	}
	return json.Unmarshal(raw, into)
}

// start makes a pod, as the Deployment's controller would, and runs the process
// of its container, as a node would.
func (w *copies) start() {
	w.Helper()
	name := fmt.Sprintf("web-%d", len(w.processes))
	pod := copied(w.T, w.template)
	meta, _ := pod["metadata"].(object)
	meta["name"] = name
	if err := w.cluster.do(post, "/api/v1/namespaces/"+w.namespace+"/pods", pod); err != nil {
		w.Fatal(err)
	}
	var made object
	if err := w.get(natslab.Within(w), "/pods/"+name, "", &made); err != nil {
		w.Fatal(err)
	}
	containers, _ := at(made, "spec", "containers").([]any)
	command, _ := at(containers[0], "command").([]any)
	if len(containers) != 1 || len(command) != 1 || command[0] != "/web" {
		w.Fatalf("it runs %v in %d containers", command, len(containers))
	}
	env := []string{"KUBECONFIG=" + w.kubeconfig} // which a pod has no need of
	variables, _ := at(containers[0], "env").([]any)
	for _, v := range variables {
		value := text(v, "value")
		switch text(v, "name") {
		case "LISTEN":
			value = "127.0.0.1:0"
		case "POD_IP":
			value = w.ip(name)
		}
		if field := text(v, "valueFrom", "fieldRef", "fieldPath"); strings.HasPrefix(field, "metadata.") {
			value = text(made, strings.Split(field, ".")...)
		}
		env = append(env, text(v, "name")+"="+value)
	}
	cmd, said := w.command(env), &strings.Builder{}
	cmd.Stderr = io.MultiWriter(cmd.Stderr, said)
	w.processes[name] = cmd
	// Before begin, so that the process has ended by then.
	w.Cleanup(func() {
		if strings.Contains(said.String(), "is forbidden") {
			w.Errorf("%s lacks a right", name)
		}
	})
	w.begin(cmd)
}

// ip is the address of a pod that Kubernetes is given: it refuses an address of
// the loopback interface, where the process is.
func (*copies) ip(pod string) string { return "192.0.2.1" + strings.TrimPrefix(pod, "web-") }

// selected are the pods to which the Service with a selector leads.
func (w *copies) selected(ctx context.Context) (names []string, err error) {
	var service struct {
		Spec struct{ Selector map[string]string }
	}
	if err := w.get(ctx, "/services/"+w.bySelector, "", &service); err != nil {
		return nil, err
	}
	var by []string
	for key, value := range service.Spec.Selector {
		by = append(by, key+"="+value)
	}
	slices.Sort(by)
	var pods struct{ Items []object }
	err = w.get(ctx, "/pods", strings.Join(by, ","), &pods)
	for _, p := range pods.Items {
		names = append(names, text(p, "metadata", "name"))
	}
	return names, err
}

// leadsTo demands that the Service with a selector leads to these pods.
func (w *copies) leadsTo(ctx context.Context, want ...string) error {
	pods, err := w.selected(ctx)
	if err == nil && !slices.Equal(pods, want) {
		err = fmt.Errorf("%s leads to %v, want %v", w.bySelector, pods, want)
	}
	return err
}

// route waits until another than the one of before leads, by the record, and
// both Services lead to it alone. It returns the name of the leader's pod.
func (w *copies) route(before string) (pod string) {
	w.Helper()
	w.eventually("the Services lead to the leader", func(ctx context.Context) error {
		found, err := leader.Snapshot(ctx, w.nc, "leaders", "web")
		if err != nil {
			return err
		}
		if len(found) != 1 || w.processes[found[0].ID] == nil || found[0].ID == before {
			return fmt.Errorf("leading is %+v", found)
		}
		pod = found[0].ID
		if err := w.leadsTo(ctx, pod); err != nil {
			return err
		}
		to, err := kubelab.Endpoints(ctx, w.cluster.client, w.namespace, w.bySlices, "http")
		if err != nil {
			return err
		}
		if len(to) != 1 || !strings.HasPrefix(to[0], w.ip(pod)+":") {
			return fmt.Errorf("%s leads, and %s to %v", pod, w.bySlices, to)
		}
		return asked(ctx, strings.Replace(to[0], w.ip(pod), "127.0.0.1", 1), pod)
	})
	return pod
}

// asked demands that a copy counts at an address, and returns its name.
func asked(ctx context.Context, address, name string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/count", http.NoBody)
	if err != nil {
		return err
	}
	// A redirect would lead to another.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err == nil && (answer.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), name+" counts ")) {
		err = fmt.Errorf("%s at %s: %s: %s", name, address, answer.Status, body)
	}
	return err
}
