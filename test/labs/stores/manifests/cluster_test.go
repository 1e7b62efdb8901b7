package manifests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// An object is one of Kubernetes, in plain JSON.
type object = map[string]any

// at returns the value at a path of fields, or nil.
func at(o any, path ...string) any {
	for _, field := range path {
		m, _ := o.(object) // nil has no fields
		o = m[field]
	}
	return o
}

func text(o any, path ...string) string {
	s, _ := at(o, path...).(string) // absent is empty
	return s
}

// A cluster is what kubectl knows of one.
type cluster struct {
	*testing.T
	client  *rest.RESTClient
	kinds   map[string]resource // by apiVersion and kind
	applied map[string]bool     // by identity
}

// identity distinguishes an object from all others of the manifests.
func identity(o object) string {
	return text(o, "apiVersion") + " " + text(o, "kind") + " " + text(o, "metadata", "name")
}

// in is the cluster for a subtest.
func (c *cluster) in(t *testing.T) *cluster {
	t.Helper()
	of := *c
	of.T = t
	return &of
}

type resource struct {
	path       string // of its API version
	name       string // plural
	namespaced bool
}

func newCluster(t *testing.T, config *rest.Config) *cluster {
	t.Helper()
	config = rest.CopyConfig(config)
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, serializer.NewCodecFactory(runtime.NewScheme())
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Client.CloseIdleConnections)
	return &cluster{t, client, map[string]resource{}, map[string]bool{}}
}

// resource asks the server what a kind is called.
func (c *cluster) resource(version, kind string) (resource, error) {
	if r, ok := c.kinds[version+" "+kind]; ok {
		return r, nil
	}
	path := "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	raw, err := c.client.Get().AbsPath(path).Do(natslab.Within(c)).Raw()
	if err != nil {
		return resource{}, err
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return resource{}, err
	}
	for _, r := range list.Resources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			found := resource{path, r.Name, r.Namespaced}
			c.kinds[version+" "+kind] = found
			return found, nil
		}
	}
	return resource{}, fmt.Errorf("the server knows no %s in %s", kind, version)
}

// apply is kubectl apply --server-side --validate=strict.
func (c *cluster) apply(o object, namespace string) error {
	r, err := c.resource(text(o, "apiVersion"), text(o, "kind"))
	if err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		request := c.client.Patch("application/apply-patch+yaml").AbsPath(r.url(namespace, text(o, "metadata", "name"))).
			Param("fieldManager", "manifests").Param("fieldValidation", "Strict").Body(body)
		err := answered(request.Do(natslab.Within(c)))
		if tries == 3 || !apierrors.IsTimeout(err) {
			c.applied[identity(o)] = err == nil
			return err
		}
		c.Logf("once more, for the server is not ready for the kind yet: %v", err)
	}
}

// answered adds the server's answer to an error, since the client does not read
// it.
func answered(result rest.Result) error {
	body, err := result.Raw()
	if err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	return nil
}

func (r resource) url(namespace, name string) string {
	path := r.path
	if r.namespaced {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.name + "/" + name
}

// do is a request in plain JSON.
func (c *cluster) do(verb, path string, body any, params ...string) error {
	request := c.client.Verb(verb).AbsPath(path).MaxRetries(0)
	for i := 0; i+1 < len(params); i += 2 {
		request = request.Param(params[i], params[i+1])
	}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		request = request.SetHeader("Content-Type", "application/json").Body(raw)
	}
	return answered(request.Do(natslab.Within(c)))
}

// documents are the objects of a file.
func documents(t *testing.T, file string) (all []object) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) // as git may write it
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var o object
		if err := yaml.UnmarshalStrict(doc, &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, o)
	}
	return all
}

// kustomized are the objects of a kustomization, as `kubectl apply -k` has
// them: by kustomize itself, which refuses what is outside of the directory.
func kustomized(t *testing.T, dir string) (all []object) {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("kustomize: %v", err)
	}
	for _, r := range rendered.Resources() {
		o, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// define makes a kind, and waits until it is served.
func (c *cluster) define(crd, sample object) {
	c.Helper()
	if err := c.apply(crd, ""); err != nil {
		c.Fatal(err)
	}
	natslab.Eventually(c, "the kind "+text(crd, "spec", "names", "kind")+" is served", func(context.Context) error {
		_, err := c.resource(text(sample, "apiVersion"), text(sample, "kind"))
		return err
	})
}

// refused demands that a request was refused for want of a right.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v", what, err)
	}
}

const post = http.MethodPost
