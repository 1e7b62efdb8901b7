package etcdstore_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/test/internal/roll"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	sessionTTL = 5 * time.Second
	oldKey     = "/of-before"
)

// A migration is from etcd's concurrency package to ours, over the same etcd.
type migration struct {
	*testing.T
	*roll.Judge

	node   *etcdlab.Node
	prefix string
	paths  map[*roll.Instance]*natslab.Relay
}

// TestRollFromEtcdsElections rolls instances of etcd's concurrency package to
// bridges, and these to candidates of this library, and back, and fails if two
// worked at one instant. docs/guides/migrating/etcd.md contains its output.
func TestRollFromEtcdsElections(t *testing.T) {
	t.Parallel()
	m := &migration{
		T: t, Judge: roll.Keep(t), node: etcdlab.Start(t, 1).Nodes[0], prefix: newPrefix(),
		paths: map[*roll.Instance]*natslab.Relay{},
	}
	m.load()
	all := []*roll.Instance{m.old("a"), m.old("b"), m.old("c")}
	m.Await("etcd's election has a leader", all...)
	m.Idle()
	for _, step := range []struct {
		what  string
		start func(string) *roll.Instance
	}{
		{"to bridges", m.bridge}, {"to ours", m.ours}, {"back to bridges", m.bridge}, {"back to etcd's", m.old},
	} {
		all = m.Replace(all, step.start, roll.Hooks{})
		m.Await(step.what, all...)
		t.Logf("%s: nobody led for %v, two for 0 s", step.what, m.Idle())
	}
	m.cutOff(all)
}

// cutOff takes the old election's network from a bridge that leads, for which
// instances of before wait. The new election's stays, so that the bridge has to
// know by itself that it has lost the old one.
func (m *migration) cutOff(all []*roll.Instance) {
	b := m.bridge("x")
	for _, a := range all {
		a.Stop()
	}
	m.Await("the bridge leads", b)
	next := m.old("y")
	m.Idle()
	path := m.paths[b]
	path.Hold(natslab.ToServer, natslab.ToClient)
	m.Await("one of before leads, when the bridge was cut off", next)
	m.Logf("bridge cut off: nobody led for %v, two for 0 s", m.Idle())
	path.Resume()
}

// A stint of work that an instance does now.
type stint struct {
	number uint64
	lasts  func() bool
}

// A worker is an instance whose campaign blocks.
type worker struct {
	*roll.Instance

	now     atomic.Pointer[stint]
	stints  atomic.Uint64
	running sync.WaitGroup
}

// work starts an instance that campaigns again and again until it is stopped.
func (m *migration) work(name string, ours bool, campaign func(ctx context.Context, w *worker) error) *roll.Instance {
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.Context()))
	w := &worker{}
	w.Instance = &roll.Instance{Name: name, Ours: ours, Stint: func() uint64 {
		if s := w.now.Load(); s != nil && s.lasts() {
			return s.number
		}
		return 0
	}, Stop: func() { cancel(); w.running.Wait() }}
	m.Add(w.Instance)
	w.running.Go(func() {
		for ctx.Err() == nil {
			if campaign(ctx, w) == nil {
				continue
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	m.Cleanup(w.Stop)
	return w.Instance
}

// does records that the instance works, while lasts returns true and until the
// function that it returns is called.
func (w *worker) does(m *migration, lasts func() bool) (end func()) {
	w.now.Store(&stint{w.stints.Add(1), lasts})
	m.Look()
	return func() { w.now.Store(nil) }
}

// old starts an instance as before: a program on etcd's concurrency package.
func (m *migration) old(name string) *roll.Instance {
	client, _ := m.client()
	return m.work(name, false, func(ctx context.Context, w *worker) error {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTTL/time.Second)))
		if err != nil {
			return err
		}
		defer func() { _ = session.Close() }()
		live, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(session.Ctx(), cancel)()
		if err := concurrency.NewElection(session, oldKey).Campaign(live, name); err != nil {
			return err
		}
		defer w.does(m, func() bool { return session.Ctx().Err() == nil })()
		<-live.Done()
		return nil
	})
}

// bridge starts an instance of the first phase.
func (m *migration) bridge(name string) *roll.Instance {
	client, path := m.client()
	st := open(m, etcdlab.Client(m, []string{m.node.URL()}), etcdstore.Options{Prefix: m.prefix})
	i := m.work(name+" (bridge)", true, func(ctx context.Context, w *worker) error {
		b := &bridge{client: client, key: oldKey, ttl: sessionTTL, store: st, config: config(name)}
		b.work = func(ctx context.Context, _ leader.Term, held func() bool) error {
			defer w.does(m, func() bool { return ctx.Err() == nil && held() })()
			<-ctx.Done()
			return nil
		}
		return b.Run(ctx)
	})
	m.paths[i] = path
	return i
}

// ours starts an instance of the second phase.
func (m *migration) ours(name string) *roll.Instance {
	client, _ := m.client()
	cfg := config(name)
	cfg.Hooks.Transition = func(leader.Transition) { m.Look() }
	e, err := leader.NewElectionWithStore(open(m, client, etcdstore.Options{Prefix: m.prefix}), cfg)
	if err != nil {
		m.Fatal(err)
	}
	return m.Ours(e, name)
}

func config(name string) leader.ElectionConfig {
	return leader.ElectionConfig{Group: "g", InstanceID: name, TTL: time.Second, HeartbeatInterval: 250 * time.Millisecond}
}

// client returns a client for one instance, through a separate proxy.
func (m *migration) client() (*clientv3.Client, *natslab.Relay) {
	path := natslab.NewRelay(m, m.node.Addr)
	return etcdlab.Client(m, []string{"http://" + path.Addr()}), path
}

// load writes other keys meanwhile, two hundred times a second.
func (m *migration) load() {
	client := etcdlab.Client(m, []string{m.node.URL()})
	ctx, cancel := context.WithCancel(m.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = client.Put(ctx, "/load", "x") // what matters is that there is something to do
			<-tick.C
		}
	})
	m.Cleanup(func() { cancel(); running.Wait() })
}

func TestTheBridgeMatchesThePage(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("bridge_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../../docs/guides/migrating/etcd.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "\n// A bridge acts")
	if code == "" || !strings.Contains(string(page), "```go\n// A bridge acts"+code+"```\n") {
		t.Error("docs/guides/migrating/etcd.md does not hold the bridge of bridge_test.go")
	}
}
