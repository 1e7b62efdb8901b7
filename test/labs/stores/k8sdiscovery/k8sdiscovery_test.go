// Package k8sdiscovery_test judges the leader's entry in Kubernetes on real API
// servers. There is no kube-proxy. Instead, a client uses the ready endpoints
// of the Service's slices, as kube-proxy reads them.
package k8sdiscovery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sdiscovery"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/announced"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	announced.Main(m, leaks.Main, func(group, id string, args []string) (discovery.Announcer, error) {
		config, err := clientcmd.BuildConfigFromFlags("", args[0])
		if err != nil {
			return nil, err
		}
		return k8sdiscovery.New(config, options(group, id, args[1]))
	})
}

const label = "example.com/leader"

// options are the options of the candidate in the pod of its name, in the
// namespace and for the Service of the group's name, or of a follower, which is
// in none of its pods.
func options(group, id, uid string) k8sdiscovery.Options {
	if id == "" {
		return k8sdiscovery.Options{Namespace: group, Service: group, PortName: "web"}
	}
	return k8sdiscovery.Options{Namespace: group, Service: group, PortName: "web", Pod: id, PodUID: uid, Label: label}
}

// A cluster is an API server with a namespace for each group, and in each the
// pods a and b.
type cluster struct {
	*kubelab.Server

	rights map[string]*rest.Config // of a service account with the rights that the documentation names
	uids   map[string]string       // of the pods, by group/name
	admin  *rest.RESTClient
}

type object = map[string]any

func start(t *testing.T, groups ...string) *cluster {
	t.Helper()
	c := &cluster{Server: kubelab.Start(t), rights: map[string]*rest.Config{}, uids: map[string]string{}}
	c.admin = c.client(t, c.Admin())
	for _, group := range groups {
		c.Namespace(group)
		c.rights[group] = c.ServiceAccount(group, "default",
			kubelab.Rule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"create"}},
			kubelab.Rule{
				APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, ResourceNames: []string{group + "-leader"},
				Verbs: []string{"get", "update", "delete", "watch"},
			},
			kubelab.Rule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "patch"}},
		)
		c.Post("/api/v1/namespaces/"+group+"/services", object{
			"metadata": object{"name": group}, "spec": object{"ports": []object{{"name": "web", "port": 80}}},
		})
		for _, id := range []string{"a", "b"} {
			var made struct{ Metadata struct{ UID string } }
			answer := c.Post("/api/v1/namespaces/"+group+"/pods", object{
				"metadata": object{"name": id, "labels": object{"app": group}},
				"spec":     object{"containers": []object{{"name": "app", "image": "example.com/app"}}},
			})
			if err := json.Unmarshal(answer, &made); err != nil {
				t.Fatal(err)
			}
			c.uids[group+"/"+id] = made.Metadata.UID
		}
	}
	return c
}

// client is one for requests in plain JSON.
func (c *cluster) client(t *testing.T, config *rest.Config) *rest.RESTClient {
	t.Helper()
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, serializer.NewCodecFactory(runtime.NewScheme())
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Client.CloseIdleConnections)
	return client
}

// open returns an announcer with the documented rights.
func (c *cluster) open(tb testing.TB, group, id string, post *announced.Post) *k8sdiscovery.Announcer {
	tb.Helper()
	config := rest.CopyConfig(c.rights[group])
	if post != nil {
		config.Wrap(func(by http.RoundTripper) http.RoundTripper {
			return post.Through(by, func(r *http.Request) bool {
				return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/endpointslices")
			})
		})
	}
	a, err := k8sdiscovery.New(config, options(group, id, c.uids[group+"/"+id]))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = a.Close() })
	return a
}

func slicesOf(group string) string {
	return "/apis/discovery.k8s.io/v1/namespaces/" + group + "/endpointslices"
}

func (c *cluster) shown(ctx context.Context, group string) ([]string, error) {
	return kubelab.Endpoints(ctx, c.admin, group, group, "web")
}

// labelled are the pods with the label.
func (c *cluster) labelled(t *testing.T, group string) (names []string) {
	t.Helper()
	found, err := c.admin.Get().AbsPath("/api/v1/namespaces/"+group+"/pods").Param("labelSelector", label+"=true").Do(natslab.Within(t)).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(found, &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		names = append(names, p.Metadata.Name)
	}
	return names
}

func (c *cluster) patch(ctx context.Context, path string, change object) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return c.admin.Patch("application/merge-patch+json").AbsPath(path).Body(body).Do(ctx).Error()
}

// With no more rights than those that are documented.
func TestTheLeaderIsFoundInKubernetes(t *testing.T) {
	t.Parallel()
	c := start(t, append(announced.Groups(), "label", "owner", "told", "cut", "foreign")...)
	t.Run("the label is on the leader's pod alone", func(t *testing.T) { t.Parallel(); c.labels(t, "label") })
	t.Run("a withdrawal that is cut short is repeated", func(t *testing.T) { t.Parallel(); c.repeats(t, "cut") })
	t.Run("the slice belongs to the leader's pod", func(t *testing.T) { t.Parallel(); c.owns(t, "owner") })
	t.Run("what somebody else has made is left alone", func(t *testing.T) { t.Parallel(); c.leavesOthersAlone(t, "foreign") })
	t.Run("an error contains the API server's answer", func(t *testing.T) { t.Parallel(); c.tells(t, "told", "owner") })
	announced.Run(t, announced.System{
		Open: func(tb testing.TB, group, id string, post *announced.Post) discovery.Announcer {
			return c.open(tb, group, id, post)
		},
		Child: func(tb testing.TB, group, id string) []string {
			return []string{c.Kubeconfig(tb, c.rights[group], group), c.uids[group+"/"+id]}
		},
		Shown: c.shown,
		Destroy: func(ctx context.Context, group string) error {
			return c.admin.Delete().AbsPath(slicesOf(group) + "/" + group + "-leader").Do(ctx).Error()
		},
		Spoil: func(ctx context.Context, group string) error {
			return c.patch(ctx, slicesOf(group)+"/"+group+"-leader", object{"endpoints": []object{{"addresses": []string{"203.0.113.9"}}}})
		},
	})
}

func (c *cluster) labels(t *testing.T, g string) {
	t.Helper()
	ctx := natslab.Within(t)
	announce := func(id string, term uint64, address string) (*k8sdiscovery.Announcer, discovery.Standing) {
		a := c.open(t, g, id, nil)
		stands, err := a.Look(ctx, g)
		if err != nil {
			t.Fatal(err)
		}
		e := discovery.Entry{Group: g, Instance: id, Term: term, Correlation: "c", Address: address}
		if err := a.Announce(ctx, e, stands); err != nil {
			t.Fatal(err)
		}
		if stands, err = a.Look(ctx, g); err != nil || stands.Damaged || !stands.Entry.Same(e) {
			t.Fatalf("%v: %+v", err, stands)
		}
		if shown, err := c.shown(ctx, g); err != nil || !slices.Equal(shown, []string{address}) {
			t.Errorf("%v: clients are led to %v", err, shown)
		}
		if names := c.labelled(t, g); !slices.Equal(names, []string{id}) {
			t.Errorf("the label is on %v", names)
		}
		return a, stands
	}
	announce("a", 1, "192.0.2.1:80")
	announce("b", 2, "[2001:db8::1]:80") // of another family, whose slice has to be made again
	a, _ := announce("a", 3, "192.0.2.1:80")
	if err := c.patch(ctx, "/api/v1/namespaces/"+g+"/pods/b", object{"metadata": object{"labels": object{label: "true"}}}); err != nil {
		t.Fatal(err)
	}
	stands, err := a.Look(ctx, g)
	if err != nil || !stands.Damaged {
		t.Errorf("%v: %+v", err, stands)
	}
	if err := a.Announce(ctx, stands.Entry, stands); err != nil {
		t.Fatal(err)
	}
	if names := c.labelled(t, g); !slices.Equal(names, []string{"a"}) {
		t.Errorf("the label is on %v", names)
	}
	// Any other candidate can withdraw it.
	b := c.open(t, g, "b", nil)
	if stands, err = b.Look(ctx, g); err != nil {
		t.Fatal(err)
	}
	if err := b.Withdraw(ctx, stands); err != nil {
		t.Fatal(err)
	}
	if names := c.labelled(t, g); len(names) != 0 {
		t.Errorf("the label is on %v", names)
	}
	if stands, err = b.Look(ctx, g); err != nil || !stands.Entry.IsZero() || stands.LastTerm != 3 {
		t.Errorf("%v: %+v", err, stands)
	}
}

// leavesOthersAlone has somebody else's slice, and a label of the pods with
// another value.
func (c *cluster) leavesOthersAlone(t *testing.T, g string) {
	t.Helper()
	ctx, path := natslab.Within(t), slicesOf(g)+"/"+g+"-leader"
	c.Post(slicesOf(g), object{
		"metadata":    object{"name": g + "-leader", "labels": object{"kubernetes.io/service-name": g, "endpointslice.kubernetes.io/managed-by": "somebody"}},
		"addressType": "IPv6", "endpoints": []object{{"addresses": []string{"2001:db8::9"}}},
	})
	before, err := c.admin.Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		t.Fatal(err)
	}
	a := c.open(t, g, "a", nil)
	if stands, err := a.Look(ctx, g); err == nil || !strings.Contains(err.Error(), `"somebody"`) {
		t.Errorf("%v: %+v", err, stands)
	}
	e := discovery.Entry{Group: g, Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80"}
	if err := a.Announce(ctx, e, discovery.Standing{}); !errors.Is(err, discovery.ErrChanged) {
		t.Errorf("%v, want ErrChanged", err)
	}
	if after, err := c.admin.Get().AbsPath(path).Do(ctx).Raw(); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%v: it was\n%s\nand is\n%s", err, before, after)
	}

	if err := c.admin.Delete().AbsPath(path).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	pod := "/api/v1/namespaces/" + g + "/pods/b"
	if err := c.patch(ctx, pod, object{"metadata": object{"labels": object{label: "theirs"}}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Announce(ctx, e, discovery.Standing{}); err != nil {
		t.Fatal(err)
	}
	stands, err := a.Look(ctx, g)
	if err != nil || stands.Damaged {
		t.Fatalf("%v: %+v", err, stands)
	}
	if err := a.Withdraw(ctx, stands); err != nil {
		t.Fatal(err)
	}
	var kept struct {
		Metadata struct{ Labels map[string]string }
	}
	raw, err := c.admin.Get().AbsPath(pod).Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil || kept.Metadata.Labels[label] != "theirs" {
		t.Errorf("%v: the labels of the other pod are %v", err, kept.Metadata.Labels)
	}
}

// severed fails to change pods.
type severed struct {
	http.RoundTripper
	down *atomic.Bool
}

func (s severed) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.down.Load() && r.Method == http.MethodPatch {
		return nil, errors.New("cut short")
	}
	return s.RoundTripper.RoundTrip(r)
}

// A withdrawal empties the slice before it takes the label away. If it was cut
// off before that, the next look finds the label.
func (c *cluster) repeats(t *testing.T, g string) {
	t.Helper()
	ctx := natslab.Within(t)
	var down atomic.Bool
	config := rest.CopyConfig(c.rights[g])
	config.Wrap(func(by http.RoundTripper) http.RoundTripper { return severed{by, &down} })
	a, err := k8sdiscovery.New(config, options(g, "a", c.uids[g+"/a"]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	e := discovery.Entry{Group: g, Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80"}
	if err := a.Announce(ctx, e, discovery.Standing{}); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []bool{true, true, false} {
		down.Store(cut)
		stands, err := a.Look(ctx, g)
		if err != nil || !stands.Entry.Same(e) {
			t.Fatalf("%v: %+v", err, stands)
		}
		if err := a.Withdraw(ctx, stands); (err != nil) != cut {
			t.Fatalf("cut short %v: %v", cut, err)
		}
		if shown, err := c.shown(ctx, g); err != nil || len(shown) != 0 {
			t.Errorf("%v: clients are led to %v", err, shown)
		}
	}
	if names := c.labelled(t, g); len(names) != 0 {
		t.Errorf("the label is on %v", names)
	}
	if stands, err := a.Look(ctx, g); err != nil || !stands.Entry.IsZero() || stands.LastTerm != 1 || stands.Damaged {
		t.Errorf("%v: %+v", err, stands)
	}
}

// When the last leader's pod is deleted, Kubernetes' garbage collector removes
// the slice. The lab has no collector, so this checks the owner that it goes
// by.
func (c *cluster) owns(t *testing.T, g string) {
	t.Helper()
	ctx, a := natslab.Within(t), c.open(t, g, "a", nil)
	e := discovery.Entry{Group: g, Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80"}
	if err := a.Announce(ctx, e, discovery.Standing{}); err != nil {
		t.Fatal(err)
	}
	found, err := c.admin.Get().AbsPath(slicesOf(g) + "/" + g + "-leader").Do(ctx).Raw()
	if err != nil {
		t.Fatal(err)
	}
	type reference struct{ Kind, Name, UID string }
	var s struct {
		Metadata  struct{ OwnerReferences []reference }
		Endpoints []struct{ TargetRef reference }
	}
	if err := json.Unmarshal(found, &s); err != nil {
		t.Fatal(err)
	}
	pod := reference{"Pod", "a", c.uids[g+"/a"]}
	if len(s.Metadata.OwnerReferences) != 1 || s.Metadata.OwnerReferences[0] != pod || len(s.Endpoints) != 1 || s.Endpoints[0].TargetRef != pod {
		t.Errorf("%s", found)
	}
	// A follower, which cannot know the pod, leaves it alone. The leader's own
	// announcer does not leave alone a slice without it.
	if stands, err := c.open(t, g, "", nil).Look(ctx, g); err != nil || stands.Damaged || !stands.Entry.Same(e) {
		t.Errorf("%v: %+v", err, stands)
	}
	if err := c.patch(ctx, slicesOf(g)+"/"+g+"-leader", object{"metadata": object{"ownerReferences": []object{}}}); err != nil {
		t.Fatal(err)
	}
	if stands, err := a.Look(ctx, g); err != nil || !stands.Damaged {
		t.Errorf("%v: %+v", err, stands)
	}
}

// If a right is missing, or Kubernetes refuses an address, the error must name
// it.
func (c *cluster) tells(t *testing.T, g, other string) {
	t.Helper()
	ctx, own := natslab.Within(t), c.open(t, g, "a", nil)
	abroad, err := k8sdiscovery.New(c.rights[g], options(other, "a", c.uids[other+"/a"]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = abroad.Close() })
	_, look := abroad.Look(ctx, other)
	for want, err := range map[string]error{
		`cannot get resource "endpointslices"`:   look,
		`cannot watch resource "endpointslices"`: abroad.Watch(ctx, other, func() {}),
		"loopback range":                         own.Announce(ctx, discovery.Entry{Group: g, Instance: "a", Term: 1, Correlation: "c", Address: "127.0.0.1:80"}, discovery.Standing{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}
