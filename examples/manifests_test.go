package examples

import (
	"bytes"
	"errors"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const manifests = "../deploy/kubernetes"

// A deployment is all that the manifests deploy, by kind and name.
type deployment struct {
	configs      map[string]*corev1.ConfigMap
	services     map[string]*corev1.Service
	budgets      map[string]*policyv1.PodDisruptionBudget
	policies     map[string]*networkingv1.NetworkPolicy
	deployments  map[string]*appsv1.Deployment
	statefulSets map[string]*appsv1.StatefulSet
}

// load reads the files that kustomization.yaml names, each document strictly: a
// field that Kubernetes does not know is a fault.
func load(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{
		configs: map[string]*corev1.ConfigMap{}, services: map[string]*corev1.Service{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, policies: map[string]*networkingv1.NetworkPolicy{},
		deployments: map[string]*appsv1.Deployment{}, statefulSets: map[string]*appsv1.StatefulSet{},
	}
	for _, file := range kustomization(t) {
		for doc := range bytes.SplitSeq(read(t, filepath.Join(manifests, file)), []byte("\n---\n")) {
			d.add(t, file, doc)
		}
	}
	return d
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
	into[object.GetName()] = object
	return err
}

// strictly decodes as the API server does: names of fields are told apart by
// case, and unknown ones are faults.
func strictly(doc []byte, into any) error {
	data, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	faults, err := json.UnmarshalStrict(data, into)
	return errors.Join(append(faults, err)...)
}

// kustomization returns the files of the kustomization, which are all there
// are.
func kustomization(t *testing.T) (files []string) {
	t.Helper()
	var k struct {
		APIVersion, Kind, Namespace string
		Resources                   []string
	}
	const name = "kustomization.yaml"
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(manifests, name)), &k); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if base := filepath.Base(path); base != name && !slices.Contains(k.Resources, base) {
			t.Errorf("%s does not name %s", name, base)
		}
	}
	return k.Resources
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

func TestWhatManifestsSelectExists(t *testing.T) {
	d := load(t)
	for _, p := range d.pods() {
		if found := d.selected(t, p.selector); len(found) != 1 || found[0].owner != p.owner {
			t.Errorf("%s selects the pods of %d owners", p.owner, len(found))
		}
		if want := copies(p); p.replicas != want {
			t.Errorf("%s has %d replicas, want %d", p.owner, p.replicas, want)
		}
	}
	for name, s := range d.services {
		d.checkPorts(t, "service "+name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, func(yield func(string) bool) {
			for _, port := range s.Spec.Ports {
				yield(port.TargetPort.String())
			}
		})
	}
	for name, b := range d.budgets {
		if len(d.selected(t, b.Spec.Selector)) != 1 {
			t.Errorf("the budget %s selects no pods, or those of several", name)
		}
	}
	for name, s := range d.statefulSets {
		if d.services[s.Spec.ServiceName] == nil {
			t.Errorf("statefulset %s: there is no service %q", name, s.Spec.ServiceName)
		}
	}
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
}

// copies is how many there are to be: three of which one may act, or is lost,
// two of what serves without an election, and one of what only looks on.
func copies(p pods) int32 {
	switch p.owner {
	case "deployment leader-exporter", "deployment leader-dash":
		return 1
	case "deployment web-leader":
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
	d := load(t)
	for _, p := range d.pods() {
		volumes := map[string]bool{}
		for _, v := range p.Spec.Volumes {
			volumes[v.Name] = true
			if v.ConfigMap != nil && d.configs[v.ConfigMap.Name] == nil {
				t.Errorf("%s: there is no config map %q", p.owner, v.ConfigMap.Name)
			}
		}
		for _, s := range d.statefulSets {
			for _, claim := range s.Spec.VolumeClaimTemplates {
				volumes[claim.Name] = true
			}
		}
		for _, c := range p.containers() {
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s, container %s: there is no volume %q", p.owner, c.Name, m.Name)
				}
			}
			for kind, probe := range probes(c) {
				if _, ok := p.port(probe.HTTPGet.Port.String()); !ok {
					t.Errorf("%s, container %s: the %s probe asks port %v", p.owner, c.Name, kind, probe.HTTPGet.Port)
				}
			}
			checkHardened(t, p, c)
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
		pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot,
		pod.SeccompProfile == nil || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("%s, container %s does not meet the pod security standard restricted", p.owner, c.Name)
	}
	if strings.HasSuffix(c.Image, ":latest") || !strings.Contains(c.Image, ":") {
		t.Errorf("%s, container %s: the image %q may be another one tomorrow", p.owner, c.Name, c.Image)
	}
}
