package examples

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	manifests = "../deploy/kubernetes"
	labelled  = "../deploy/label"
	images    = "../deploy/images" // a component of those that have pods
)

// A deployment is all that manifests deploy beside each other, by kind and
// name.
type deployment struct {
	configs      map[string]*corev1.ConfigMap
	accounts     map[string]*corev1.ServiceAccount
	services     map[string]*corev1.Service
	budgets      map[string]*policyv1.PodDisruptionBudget
	policies     map[string]*networkingv1.NetworkPolicy
	deployments  map[string]*appsv1.Deployment
	statefulSets map[string]*appsv1.StatefulSet
	roles        map[string]*rbacv1.Role
	bindings     map[string]*rbacv1.RoleBinding
	monitors     map[string]*serviceMonitor
}

// A serviceMonitor is one of the Prometheus operator, as far as the manifests
// use it.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Interval      string `json:"interval"`
			ScrapeTimeout string `json:"scrapeTimeout"`
		} `json:"endpoints"`
	} `json:"spec"`
}

func newDeployment() *deployment {
	return &deployment{
		configs: map[string]*corev1.ConfigMap{}, accounts: map[string]*corev1.ServiceAccount{}, services: map[string]*corev1.Service{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, policies: map[string]*networkingv1.NetworkPolicy{},
		deployments: map[string]*appsv1.Deployment{}, statefulSets: map[string]*appsv1.StatefulSet{},
		roles: map[string]*rbacv1.Role{}, bindings: map[string]*rbacv1.RoleBinding{}, monitors: map[string]*serviceMonitor{},
	}
}

// load reads what deploy/kubernetes deploys.
func load(t *testing.T) *deployment {
	t.Helper()
	d := newDeployment()
	d.kustomization(t, manifests)
	return d
}

// deployed are all installations that the repository has manifests for, by the
// directory or the file that is applied. deploy/kubernetes is applied with the
// manifests that need NATS and do not bring it.
func deployed(t *testing.T) map[string]*deployment {
	t.Helper()
	all := map[string]*deployment{}
	for _, path := range bases(t) {
		d := newDeployment()
		if !slices.Contains([]string{manifests, "../deploy/monitoring", labelled, "../deploy/namespace", "../deploy/leases"}, path) {
			d.kustomization(t, manifests)
		}
		if filepath.Ext(path) == ".yaml" {
			d.file(t, path)
		} else {
			d.kustomization(t, path)
		}
		all[path] = d
	}
	return all
}

// bases finds each directory that is applied as a whole, and each file that is
// not part of one. A file without a kind is none of Kubernetes.
func bases(t *testing.T) (found []string) {
	t.Helper()
	for _, root := range []string{"../deploy", "operator/deploy"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			path = filepath.ToSlash(path)
			dir := filepath.ToSlash(filepath.Dir(path))
			_, whole := os.Stat(filepath.Join(dir, "kustomization.yaml"))
			switch {
			case dir == images:
			case whole == nil && !slices.Contains(found, dir):
				found = append(found, dir)
			case whole != nil && bytes.Contains(read(t, path), []byte("\nkind: ")):
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 8 { // what there was when this was written
		t.Fatalf("there are manifests in %q alone", found)
	}
	return found
}

// kustomization adds what a kustomization names, which has to be all there is
// in its directory, and patches it.
func (d *deployment) kustomization(t *testing.T, dir string) {
	t.Helper()
	var k struct {
		APIVersion, Kind, Namespace string
		Resources, Components       []string
		Patches                     []struct{ Path string }
	}
	const name = "kustomization.yaml"
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(dir, name)), &k); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		base := filepath.Base(path)
		patches := slices.ContainsFunc(k.Patches, func(p struct{ Path string }) bool { return p.Path == base })
		if base != name && !patches && !slices.Contains(k.Resources, base) {
			t.Errorf("%s in %s does not name %s", name, dir, base)
		}
	}
	for _, resource := range k.Resources {
		path := filepath.Join(dir, resource)
		switch {
		case filepath.Ext(path) != ".yaml":
			d.kustomization(t, path)
		case filepath.Base(path) != resource:
			t.Errorf("%s takes %s from outside, which kustomize refuses", dir, resource)
		default:
			d.file(t, path)
		}
	}
	for _, p := range k.Patches {
		d.patch(t, filepath.Join(dir, p.Path))
	}
	for _, component := range k.Components {
		if path := filepath.ToSlash(filepath.Join(dir, component)); path != images {
			t.Errorf("%s has the component %s, which this test does not know", dir, path)
		}
		d.nameImages(t)
	}
}

// nameImages gives the containers the images that deploy/images names, as
// kustomize does: all of them, so that no manifest names a version.
func (d *deployment) nameImages(t *testing.T) {
	t.Helper()
	var k struct {
		APIVersion, Kind string
		Images           []struct{ Name, NewName, NewTag string }
	}
	if err := yaml.UnmarshalStrict(read(t, images+"/kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, i := range k.Images {
		named[i.Name] = cmp.Or(i.NewName, i.Name) + ":" + i.NewTag
	}
	var specs []*corev1.PodSpec
	for _, w := range d.deployments {
		specs = append(specs, &w.Spec.Template.Spec)
	}
	for _, w := range d.statefulSets {
		specs = append(specs, &w.Spec.Template.Spec)
	}
	for _, spec := range specs {
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range containers {
				name, _, _ := strings.Cut(containers[i].Image, ":")
				if named[name] == "" {
					t.Errorf("%s does not name the image %s of container %s", images, containers[i].Image, containers[i].Name)
				}
				containers[i].Image = named[name]
			}
		}
	}
}

// patch merges a Deployment's patch into the existing one, as kustomize and the
// API server do. The patch has to be strict by itself, too.
func (d *deployment) patch(t *testing.T, path string) {
	t.Helper()
	doc := read(t, path)
	var patch appsv1.Deployment
	if err := strictly(doc, &patch); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	stands := d.deployments[patch.Name]
	if patch.Kind != "Deployment" || stands == nil {
		t.Fatalf("%s: there is no %s %s to be patched", path, patch.Kind, patch.Name)
	}
	before, err := yaml.Marshal(stands)
	if err == nil {
		before, err = yaml.YAMLToJSON(before)
	}
	change, changeErr := yaml.YAMLToJSON(doc)
	if err := errors.Join(err, changeErr); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	merged, err := strategicpatch.StrategicMergePatch(before, change, appsv1.Deployment{})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	delete(d.deployments, patch.Name)
	if err := decode(merged, d.deployments); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// file adds the documents of a file, each strictly: a field that Kubernetes
// does not know is a fault.
func (d *deployment) file(t *testing.T, path string) {
	t.Helper()
	for doc := range bytes.SplitSeq(read(t, path), []byte("\n---\n")) {
		d.add(t, path, doc)
	}
}

func (d *deployment) add(t *testing.T, file string, doc []byte) {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var err error
	switch meta.APIVersion + " " + meta.Kind {
	case "v1 Namespace":
		err = strictly(doc, &corev1.Namespace{})
	case "v1 ConfigMap":
		err = decode(doc, d.configs)
	case "v1 ServiceAccount":
		err = decode(doc, d.accounts)
	case "v1 Service":
		err = decode(doc, d.services)
	case "policy/v1 PodDisruptionBudget":
		err = decode(doc, d.budgets)
	case "networking.k8s.io/v1 NetworkPolicy":
		err = decode(doc, d.policies)
	case "apps/v1 Deployment":
		err = decode(doc, d.deployments)
	case "apps/v1 StatefulSet":
		err = decode(doc, d.statefulSets)
	case "rbac.authorization.k8s.io/v1 Role":
		err = decode(doc, d.roles)
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		err = decode(doc, d.bindings)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		err = decode(doc, d.monitors)
	case "apiextensions.k8s.io/v1 CustomResourceDefinition", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":
		// An API server has looked at them: test/labs/stores/manifests.
	default:
		t.Errorf("%s: a document of kind %s %s, which this test does not know", file, meta.APIVersion, meta.Kind)
	}
	if err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

func decode[T any, P interface {
	*T
	GetName() string
}](doc []byte, into map[string]P,
) error {
	object := P(new(T))
	err := strictly(doc, object)
	if into[object.GetName()] != nil {
		err = errors.Join(err, fmt.Errorf("there is another %T with the name %s", object, object.GetName()))
	}
	into[object.GetName()] = object
	return err
}

// strictly decodes as the API server does: names of fields are case-sensitive,
// and unknown ones are faults.
func strictly(doc []byte, into any) error {
	data, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	faults, err := json.UnmarshalStrict(data, into)
	return errors.Join(append(faults, err)...)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) // as git may write it
}

// A pods is a template of pods, and who has it.
type pods struct {
	owner    string
	replicas int32
	selector *metav1.LabelSelector
	corev1.PodTemplateSpec
}

func (d *deployment) pods() (all []pods) {
	for name, o := range d.deployments {
		all = append(all, pods{"deployment " + name, *o.Spec.Replicas, o.Spec.Selector, o.Spec.Template})
	}
	for name, o := range d.statefulSets {
		all = append(all, pods{"statefulset " + name, *o.Spec.Replicas, o.Spec.Selector, o.Spec.Template})
	}
	return all
}

// selected returns the pods with these labels.
func (d *deployment) selected(t *testing.T, by *metav1.LabelSelector) (found []pods) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.pods() {
		if s.Matches(labels.Set(p.Labels)) {
			found = append(found, p)
		}
	}
	return found
}

// containers are all of a pod that go on running.
func (p pods) containers() []corev1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
}

// port returns the number of a named port.
func (p pods) port(name string) (number int32, ok bool) {
	for _, c := range p.containers() {
		for _, port := range c.Ports {
			if port.Name == name {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}

func probes(c corev1.Container) map[string]*corev1.Probe {
	all := map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe}
	maps.DeleteFunc(all, func(_ string, p *corev1.Probe) bool { return p == nil })
	return all
}

func TestSelectorsOfManifestsMatch(t *testing.T) {
	for base, d := range deployed(t) {
		t.Run(base, func(t *testing.T) {
			d.checkPods(t)
			d.checkServices(t)
			d.checkPolicies(t)
			d.checkRights(t)
		})
	}
}

func (d *deployment) checkPods(t *testing.T) {
	t.Helper()
	guarded := map[string]int{}
	for name, b := range d.budgets {
		found := d.selected(t, b.Spec.Selector)
		if len(found) != 1 {
			t.Errorf("the budget %s selects the pods of %d owners", name, len(found))
		}
		for _, p := range found {
			guarded[p.owner]++
		}
	}
	for _, p := range d.pods() {
		if found := d.selected(t, p.selector); len(found) != 1 || found[0].owner != p.owner {
			t.Errorf("%s selects the pods of %d owners", p.owner, len(found))
		}
		if want := copies(p); p.replicas != want {
			t.Errorf("%s has %d replicas, want %d", p.owner, p.replicas, want)
		}
		if p.replicas > 1 && guarded[p.owner] != 1 {
			t.Errorf("%s: %d budgets see to it that one of its pods goes at a time", p.owner, guarded[p.owner])
		}
	}
	for name, s := range d.statefulSets {
		if d.services[s.Spec.ServiceName] == nil {
			t.Errorf("statefulset %s: there is no service %q", name, s.Spec.ServiceName)
		}
	}
}

func (d *deployment) checkServices(t *testing.T) {
	t.Helper()
	for name, s := range d.services {
		if s.Spec.Selector == nil {
			continue // somebody keeps its EndpointSlice
		}
		by := maps.Clone(s.Spec.Selector)
		maps.DeleteFunc(by, func(key, _ string) bool { return d.given("LEADER_LABEL", key) })
		d.checkPorts(t, "service "+name, &metav1.LabelSelector{MatchLabels: by}, func(yield func(string) bool) {
			for _, port := range s.Spec.Ports {
				yield(port.TargetPort.String())
			}
		})
	}
	for name, m := range d.monitors {
		by, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		ports := map[string]bool{}
		for _, s := range d.services {
			for _, port := range s.Spec.Ports {
				ports[port.Name] = ports[port.Name] || by.Matches(labels.Set(s.Labels))
			}
		}
		for _, e := range m.Spec.Endpoints {
			if !ports[e.Port] {
				t.Errorf("the monitor %s selects no service with a port %q", name, e.Port)
			}
		}
	}
}

// given reports whether a container has the value for a variable, such as the
// label that its pod carries while it leads, which no template has.
func (d *deployment) given(variable, value string) bool {
	return slices.ContainsFunc(d.pods(), func(p pods) bool {
		return slices.ContainsFunc(p.containers(), func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == variable && e.Value == value })
		})
	})
}

func (d *deployment) checkPolicies(t *testing.T) {
	t.Helper()
	for name, p := range d.policies {
		for _, rule := range p.Spec.Ingress {
			d.checkPorts(t, "policy "+name, &p.Spec.PodSelector, func(yield func(string) bool) {
				for _, port := range rule.Ports {
					yield(port.Port.String())
				}
			})
			for _, peer := range rule.From {
				if len(d.selected(t, peer.PodSelector)) == 0 {
					t.Errorf("policy %s lets in pods that do not exist: %v", name, peer.PodSelector)
				}
			}
		}
	}
	for _, p := range d.pods() {
		asks := slices.ContainsFunc(p.containers(), func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "NATS_URL" })
		})
		if asks && (d.services["nats"] == nil || p.Labels["nats-client"] != "true") {
			t.Errorf("%s asks a NATS that is not there, or does not let it in", p.owner)
		}
	}
}

// checkRights demands that only pods with rights of their own have a token, and
// that each binding binds what there is.
func (d *deployment) checkRights(t *testing.T) {
	t.Helper()
	bound := map[string]bool{}
	for name, b := range d.bindings {
		if b.RoleRef.Kind != "Role" || d.roles[b.RoleRef.Name] == nil {
			t.Errorf("binding %s: there is no %s %s", name, b.RoleRef.Kind, b.RoleRef.Name)
		}
		for _, s := range b.Subjects {
			if s.Kind != "ServiceAccount" || d.accounts[s.Name] == nil || s.Namespace != "leader" {
				t.Errorf("binding %s: there is no %s %s/%s", name, s.Kind, s.Namespace, s.Name)
			}
			bound[s.Name] = true
		}
	}
	for name, a := range d.accounts {
		if !bound[name] || a.AutomountServiceAccountToken == nil || *a.AutomountServiceAccountToken {
			t.Errorf("account %s has no rights, or gives its token to pods that do not ask for it", name)
		}
	}
	for _, p := range d.pods() {
		needs, has := p.Spec.ServiceAccountName != "", p.Spec.AutomountServiceAccountToken
		if needs && d.accounts[p.Spec.ServiceAccountName] == nil {
			t.Errorf("%s: there is no account %q", p.owner, p.Spec.ServiceAccountName)
		}
		if has == nil || *has != needs {
			t.Errorf("%s: automountServiceAccountToken has to be %v", p.owner, needs)
		}
	}
}

// copies is how many there are to be: three of which one may act, or is lost,
// two of what serves without an election or can wait for a restart, and one of
// what only looks on.
func copies(p pods) int32 {
	switch p.owner {
	case "deployment leader-exporter", "deployment leader-dash":
		return 1
	case "deployment web-leader", "deployment announce", "deployment leadergroup-operator":
		return 2
	default:
		return 3
	}
}

func (d *deployment) checkPorts(t *testing.T, what string, by *metav1.LabelSelector, ports func(yield func(string) bool)) {
	t.Helper()
	found := d.selected(t, by)
	if len(found) != 1 {
		t.Fatalf("%s selects the pods of %d owners", what, len(found))
	}
	for name := range ports {
		if _, ok := found[0].port(name); !ok {
			t.Errorf("%s: no container of %s has a port %q", what, found[0].owner, name)
		}
	}
}

func TestContainersNameWhatTheyHave(t *testing.T) {
	for base, d := range deployed(t) {
		t.Run(base, func(t *testing.T) {
			for _, p := range d.pods() {
				volumes := d.volumes(t, p)
				for _, c := range p.containers() {
					for _, m := range c.VolumeMounts {
						if !volumes[m.Name] {
							t.Errorf("%s, container %s: there is no volume %q", p.owner, c.Name, m.Name)
						}
					}
					checkProbes(t, p, c)
					checkHardened(t, p, c)
				}
			}
		})
	}
}

// volumes are the names of a pod's volumes.
func (d *deployment) volumes(t *testing.T, p pods) map[string]bool {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil && d.configs[v.ConfigMap.Name] == nil {
			t.Errorf("%s: there is no config map %q", p.owner, v.ConfigMap.Name)
		}
	}
	for name, s := range d.statefulSets {
		for _, claim := range s.Spec.VolumeClaimTemplates {
			if p.owner == "statefulset "+name {
				volumes[claim.Name] = true
			}
		}
	}
	return volumes
}

// checkProbes requires that a serving container reports whether it is ready,
// and whether a restart would help.
func checkProbes(t *testing.T, p pods, c corev1.Container) {
	t.Helper()
	all := probes(c)
	for kind, probe := range all {
		if _, ok := p.port(probe.HTTPGet.Port.String()); !ok {
			t.Errorf("%s, container %s: the %s probe asks port %v", p.owner, c.Name, kind, probe.HTTPGet.Port)
		}
	}
	for _, kind := range []string{"readiness", "liveness"} {
		if len(c.Ports) > 0 && all[kind] == nil {
			t.Errorf("%s, container %s serves, and has no %s probe", p.owner, c.Name, kind)
		}
	}
}

// checkHardened holds the pods to the standard "restricted", which the
// namespace enforces.
func checkHardened(t *testing.T, p pods, c corev1.Container) {
	t.Helper()
	s, pod := c.SecurityContext, p.Spec.SecurityContext
	switch {
	case s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation,
		s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL"),
		s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem,
		pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot,
		pod.SeccompProfile == nil || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("%s, container %s does not meet the pod security standard restricted, or may write where it runs", p.owner, c.Name)
	}
	if strings.HasSuffix(c.Image, ":latest") || !strings.Contains(c.Image, ":") {
		t.Errorf("%s, container %s: the image %q may be another one tomorrow", p.owner, c.Name, c.Image)
	}
}
