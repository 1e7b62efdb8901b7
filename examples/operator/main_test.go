package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// serving has a process of this executable be the operator.
const serving = "OPERATOR_OF_THE_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(serving) != "" {
		os.Exit(run(context.Background(), slog.New(slog.NewJSONHandler(os.Stderr, nil))))
	}
	os.Exit(m.Run())
}

const (
	namespace = "leader"
	account   = "leadergroup-operator"

	// lease is the operators' lease: an operator that loses it ends, as in a
	// machine that stalls for so long, and here nobody starts it again.
	lease = 10 * time.Second
)

// A stage is a cluster with what deploy/ has, and NATS.
type stage struct {
	*testing.T
	srv    *kubelab.Server
	nats   *natslab.Server
	admin  client.Client
	config *rest.Config // of the operator's account
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, srv: kubelab.Start(t), nats: natslab.Start(t)}
	s.admin = s.client(s.srv.Admin())
	s.srv.Namespace(namespace)
	s.deploy()
	var answer struct{ Status struct{ Token string } }
	raw := s.srv.Post("/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", map[string]any{"spec": map[string]any{"expirationSeconds": 3600}})
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	s.config = s.srv.Anonymous()
	s.config.BearerToken = answer.Status.Token
	return s
}

func (s *stage) client(config *rest.Config) client.Client {
	s.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		s.Fatal(err)
	}
	addToScheme(scheme)
	var c client.Client
	// Which kinds there are is asked when the client is made.
	natslab.Eventually(s, "a client", func(context.Context) (err error) {
		c, err = client.New(config, client.Options{Scheme: scheme})
		return err
	})
	return c
}

// deploy applies the kustomization of deploy/. test/labs/stores/manifests does so
// strictly.
func (s *stage) deploy() {
	s.Helper()
	var k struct{ Resources []string }
	if err := yaml.Unmarshal(read(s.T, "kustomization.yaml"), &k); err != nil {
		s.Fatal(err)
	}
	for _, file := range k.Resources {
		for doc := range bytes.SplitSeq(read(s.T, file), []byte("\n---\n")) {
			var u unstructured.Unstructured
			if err := yaml.UnmarshalStrict(doc, &u.Object); err != nil {
				s.Fatalf("%s: %v", file, err)
			}
			natslab.Eventually(s, "the object "+u.GetName(), func(ctx context.Context) error {
				namespaced, err := s.admin.IsObjectNamespaced(&u)
				if err != nil {
					return err
				}
				if namespaced {
					u.SetNamespace(namespace)
				}
				return s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(&u), client.FieldOwner("test"))
			})
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}

// A copied operator is one of two, in a separate process, with a separate way
// to NATS and to the API server.
type copied struct {
	name string
	cmd  *exec.Cmd
	nats *natslab.Relay
	api  *gate
	log  logged

	ended chan struct{} // closed when the process has
	at    time.Time     // when that was
}

// operator starts a copy, which has the rights of its account and no others.
func (s *stage) operator(name string) *copied {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	c := &copied{
		name: name, cmd: exec.CommandContext(context.WithoutCancel(s.Context()), self),
		nats: natslab.NewRelay(s, s.nats.Addr()), api: s.gate(), ended: make(chan struct{}),
	}
	c.cmd.Env = append(os.Environ(), serving+"=1", "KUBECONFIG="+s.srv.Kubeconfig(s, c.api.config(s.T, s.config), namespace),
		"NATS_URL="+c.nats.URL(), "POD_NAME="+name, "NAMESPACE="+namespace, "LEADER_TTL="+lease.String(), "PROBES=127.0.0.1:0")
	c.cmd.Stderr = &c.log
	if err := c.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // see its state
		c.at = time.Now()
		close(c.ended)
	}()
	s.Cleanup(func() {
		c.kill()
		if s.Failed() {
			s.Logf("%s:\n%s", name, c.log.String())
		}
	})
	return c
}

func (c *copied) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

func (c *copied) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// ends demands that the process ends by itself, with this status.
func (c *copied) ends(t *testing.T, status int) {
	t.Helper()
	select {
	case <-c.ended:
	case <-natslab.Within(t).Done():
		t.Fatalf("%s goes on:\n%s", c.name, c.log.String())
	}
	if c.cmd.ProcessState.ExitCode() != status {
		t.Errorf("%s has ended with %v, want the status %d", c.name, c.cmd.ProcessState, status)
	}
}

// logged is what a process has written so far.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// lead has a candidate of a sample election lead.
func (s *stage) lead(id string) leader.Election {
	s.Helper()
	e, err := leader.NewElection(s.nats.Connect(s), leader.ElectionConfig{
		Bucket: "leaders", BucketAutoCreate: true, Group: "orders", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		AcquireGrace: leader.GraceOff, Address: id + ".example:80", DeleteOnStop: true,
	})
	if err == nil {
		err = e.Start(context.WithoutCancel(s.Context()))
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = e.Stop() })
	natslab.Eventually(s, id+" leads", func(context.Context) error {
		if !e.IsLeader() {
			return fmt.Errorf("%+v", e.Status())
		}
		return nil
	})
	return e
}

// shows waits until the ConfigMap and the status name this one as the leader,
// and returns the operator's term by which they do.
func (s *stage) shows(id string, other func(term uint64) bool) (g LeaderGroup, term uint64) {
	s.Helper()
	key, shows := client.ObjectKey{Namespace: namespace, Name: "orders"}, client.ObjectKey{Namespace: namespace, Name: prefix + "orders"}
	natslab.Eventually(s, "the ConfigMap names "+id+" as the leader", func(ctx context.Context) error {
		var m corev1.ConfigMap
		if err := errors.Join(s.admin.Get(ctx, shows, &m), s.admin.Get(ctx, key, &g)); err != nil {
			return err
		}
		term, _ = strconv.ParseUint(m.Annotations[termAnnotation], 10, 64)
		condition := meta.FindStatusCondition(g.Status.Conditions, led)
		if !meta.IsStatusConditionTrue(g.Status.Conditions, shown) {
			return fmt.Errorf("%+v", g.Status)
		}
		if m.Data["leader"] != id || m.Data["address"] != id+".example:80" || g.Status.Leader != id || !other(term) ||
			condition == nil || condition.Status != metav1.ConditionTrue || g.Status.Since == nil || g.Status.LastChange == nil ||
			uint64(g.Status.OperatorTerm) != term || m.Data["term"] != strconv.FormatInt(g.Status.Term, 10) {
			return fmt.Errorf("%v, %v, %+v", m.Annotations, m.Data, g.Status)
		}
		return nil
	})
	return g, term
}

// two starts two operators, of which the one that leads has written that one
// leads.
func (s *stage) two() (orders leader.Election, copies map[string]*copied, first uint64) {
	s.Helper()
	orders = s.lead("one")
	group := &LeaderGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"}, Spec: LeaderGroupSpec{Group: "orders"}}
	if err := s.admin.Create(natslab.Within(s), group); err != nil {
		s.Fatal(err)
	}
	copies = map[string]*copied{"operator-1": s.operator("operator-1"), "operator-2": s.operator("operator-2")}
	_, first = s.shows("one", func(uint64) bool { return true })
	return orders, copies, first
}

// leads returns the operator that leads, in that term.
func (s *stage) leads(copies map[string]*copied, term uint64) *copied {
	s.Helper()
	for info, err := range leader.Observe(natslab.Within(s), s.nats.Connect(s), "leaders", "leadergroup-operator") {
		if err != nil {
			s.Fatal(err)
		}
		if info.ID == "" {
			continue
		}
		if copies[info.ID] == nil || info.Term != term {
			s.Fatalf("%+v leads, and the ConfigMap was written in term %d", info, term)
		}
		return copies[info.ID]
	}
	s.Fatal("nobody leads")
	return nil
}

// checkProbes asks the manifest's probes: of two copies exactly one leads, and
// both are ready.
func checkProbes(t *testing.T, c *copied) {
	t.Helper()
	found := regexp.MustCompile(`"health probe","addr":"([^"]+)"`).FindStringSubmatch(c.log.String())
	if found == nil {
		t.Fatalf("%s answers no probes:\n%s", c.name, c.log.String())
	}
	for _, path := range probed(t) {
		natslab.Eventually(t, c.name+" answers "+path, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+found[1]+path, http.NoBody)
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer func() { _ = res.Body.Close() }() // nothing of it is read
			if res.StatusCode != http.StatusOK {
				return errors.New(res.Status)
			}
			return nil
		})
	}
}

func TestTwoOperatorsAndOneThatIsKilled(t *testing.T) {
	s := newStage(t)
	orders, copies, first := s.two()

	for _, c := range copies {
		checkProbes(t, c)
	}
	killed := s.leads(copies, first)
	killed.kill()
	begun := time.Now()
	if err := orders.Stop(); err != nil {
		t.Fatal(err)
	}
	s.lead("two")
	g, second := s.shows("two", func(term uint64) bool { return term > first })
	t.Logf("killed in term %d; the other wrote in term %d, %v later, with a lease of %v", first, second, time.Since(begun).Round(100*time.Millisecond), lease)

	t.Run("LateWrites", func(t *testing.T) { lateWrites(t, s, &g, leader.Term{Number: first}, leader.Term{Number: second}) })

	// As Kubernetes ends a pod.
	delete(copies, killed.name)
	for _, last := range copies {
		next := s.operator("operator-3")
		begun := time.Now()
		last.signal(t, syscall.SIGTERM)
		last.ends(t, 0)
		_, third := s.shows("two", func(term uint64) bool { return term > second })
		t.Logf("ended in term %d; the next wrote in term %d, %v later, its start included", second, third, time.Since(begun).Round(100*time.Millisecond))
		t.Run("StepDown", func(t *testing.T) { stepDown(t, s, next, third) })
	}
}

// stepDown takes the lead from an operator: its manager ends, and its process
// fails, so that Kubernetes starts it again.
func stepDown(t *testing.T, s *stage, leads *copied, term uint64) {
	control, err := leader.NewControl(s.nats.Connect(t), "leaders", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	s.operator("operator-4")
	if _, err := control.StepDown(natslab.Within(t), "leadergroup-operator", "to see its manager end"); err != nil {
		t.Fatal(err)
	}
	leads.ends(t, 1)
	s.shows("two", func(now uint64) bool { return now > term })
	t.Run("AnotherGroup", func(t *testing.T) { anotherGroup(t, s) })
	t.Run("ForeignConfigMaps", func(t *testing.T) { foreignConfigMaps(t, s) })
}

// foreignConfigMaps has ConfigMaps of other programs, one of which has the name
// that a LeaderGroup's is to have.
func foreignConfigMaps(t *testing.T, s *stage) {
	ctx := natslab.Within(t)
	foreign := []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Data: map[string]string{"leader": "theirs"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: prefix + "web"}, Data: map[string]string{"leader": "theirs"}},
	}
	for _, m := range foreign {
		if err := s.admin.Create(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	g := &LeaderGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: LeaderGroupSpec{Group: "web"}}
	if err := s.admin.Create(ctx, g); err != nil {
		t.Fatal(err)
	}
	shows := func(ctx context.Context, reason string) error {
		if err := s.admin.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(g.Status.Conditions, shown); c == nil || c.Reason != reason {
			return fmt.Errorf("%+v", g.Status)
		}
		return nil
	}
	natslab.Eventually(t, "the status reports it", func(ctx context.Context) error { return shows(ctx, "ForeignConfigMap") })
	for _, m := range foreign {
		var now corev1.ConfigMap
		if err := s.admin.Get(ctx, client.ObjectKeyFromObject(m), &now); err != nil || now.ResourceVersion != m.ResourceVersion {
			t.Errorf("%v: it was changed: %+v", err, now)
		}
	}
	if err := s.admin.Delete(ctx, foreign[1]); err != nil {
		t.Fatal(err)
	}
	// Each change has the operator look again, which it does each minute
	// otherwise. It may hear of the deletion later than of the first one.
	changes := 0
	natslab.Eventually(t, "its own takes the place", func(ctx context.Context) error {
		changes++
		change := fmt.Sprintf(`{"spec": {"group": "web-%d"}}`, changes)
		if err := s.admin.Patch(ctx, g, client.RawPatch("application/merge-patch+json", []byte(change))); err != nil {
			return err
		}
		return shows(ctx, "Written")
	})
}

// anotherGroup has a LeaderGroup name one that has no record.
func anotherGroup(t *testing.T, s *stage) {
	g := &LeaderGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"}}
	if err := s.admin.Patch(natslab.Within(t), g, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"group": "invoices"}}`))); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "the status shows no leader", func(ctx context.Context) error {
		var m corev1.ConfigMap
		err := errors.Join(
			s.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: prefix + "orders"}, &m),
			s.admin.Get(ctx, client.ObjectKeyFromObject(g), g),
		)
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(g.Status.Conditions, led)
		if g.Status.Leader != "" || condition == nil || condition.Reason != "Vacant" || m.Data["group"] != "invoices" || m.Data["leader"] != "" {
			return fmt.Errorf("%v, %+v", m.Data, g.Status)
		}
		return nil
	})
}

// lateWrites are those that the killed operator had not sent yet, by its
// account and its code.
func lateWrites(t *testing.T, s *stage, g *LeaderGroup, first, second leader.Term) {
	own := s.client(s.config)
	ctx := natslab.Within(t)
	stale := observation{LeaderInfo: leader.LeaderInfo{ID: "nobody", Term: 1}, since: time.Now()}
	for what, err := range map[string]error{
		"the ConfigMap": applyConfigMap(ctx, own, g, stale, first),
		"the status":    applyStatus(ctx, own, g, stale, first, nil, time.Now()),
	} {
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("written in term %d", first.Number)) {
			t.Errorf("%s by a leader of before: %v", what, err)
		}
	}
	// Without a term, and also with the label dropped.
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: prefix + "orders"}}
	for _, labels := range []string{`{}`, `{"` + fencedLabel + `": null}`} {
		patch := fmt.Sprintf(`{"metadata": {"labels": %s, "annotations": {%q: null}}, "data": {"leader": "nobody"}}`, labels, termAnnotation)
		err := s.admin.Patch(ctx, m.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
		if err == nil || !strings.Contains(err.Error(), "has to state the term") {
			t.Errorf("labels %s: %v", labels, err)
		}
	}
	s.shows("two", func(term uint64) bool { return term == second.Number })
	// The one that leads may write on; here the test does, in its term.
	if err := applyConfigMap(ctx, own, g, observation{LeaderInfo: leader.LeaderInfo{ID: "two", Term: uint64(g.Status.Term), Address: "two.example:80"}}, second); err != nil {
		t.Errorf("the present leader: %v", err)
	}
	// The account has no more rights than it needs.
	if err := own.Delete(ctx, m.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("delete a ConfigMap: %v", err)
	}
	if err := own.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("list secrets: %v", err)
	}
}
