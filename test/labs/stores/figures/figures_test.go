//go:build unix

// Package figures_test measures elections over each kind of store, and writes
// the tables of docs/reference/stores.md.
package figures_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/reporting"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	rounds = flag.Int("rounds", 4, "how many writes and handovers to measure in each store")
	page   = flag.String("page", "", "the page whose tables are to be written; none: they are printed")
	file   = flag.String("json", "", "a file for what was measured, for make compare; none: it is not written")
)

// A kind is a store on its own server.
type kind struct {
	name string
	// start starts a server, or skips the test where the machine has none.
	start func(testing.TB) place
	// plain opens the store there without this library.
	plain func(t *testing.T, url string) *plain
	// server is its name in package servers; empty if the test has it itself.
	server string
}

// A place is where a server is.
type place struct {
	addr string // host:port
	// at returns the store's URL by an address: the server's own, or a proxy's.
	at func(addr string) string
}

func (p place) url() string { return p.at(p.addr) }

// around is a place whose URL has the address between two texts.
func around(addr, before, after string) place {
	return place{addr, func(addr string) string { return before + addr + after }}
}

var lab databases.Lab

func TestMain(m *testing.M) {
	if natslab.Serving() {
		return
	}
	code := m.Run()
	if err := lab.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func kinds() []kind {
	return []kind{
		{"NATS", func(tb testing.TB) place { return startNATS(tb, "") }, plainNATS, ""},
		// As durable as the others are, which sync their files before they
		// answer.
		{"NATS, each write synced", func(tb testing.TB) place {
			return startNATS(tb, fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }", tb.TempDir()))
		}, plainNATS, ""},
		{"Redis", func(tb testing.TB) place {
			return around(databases.StartRedis(tb, "--appendonly", "yes", "--appendfsync", "always").Addr(), "redis://", "")
		}, plainRedis, "redis"},
		{"PostgreSQL", func(tb testing.TB) place { return ofDatabase(lab.OwnPostgreSQL(tb, "max_connections=400")) }, plainPostgres, "postgresql"},
		{"MariaDB", func(tb testing.TB) place { return ofDatabase(lab.OwnMariaDB(tb)) }, plainMariaDB, "mariadb"},
		{"etcd", func(tb testing.TB) place {
			return around(strings.TrimPrefix(etcdlab.Start(tb, 1).URLs()[0], "http://"), "etcd://", "/votes/")
		}, plainEtcd, "etcd"},
		{"Consul", func(tb testing.TB) place { return around(consullab.Start(tb, 1).Nodes[0].Addr, "consul://", "/votes/") }, plainConsul, "consul"},
		{"S3 (versitygw)", func(tb testing.TB) place { return ofObjects(objectlab.StartS3(tb), (*objectlab.Server).S3URL) }, plainS3, "s3"},
		{"GCS (an emulator)", func(tb testing.TB) place { return ofObjects(objectlab.StartGCS(tb), (*objectlab.Server).GCSURL) }, plainGCS, "gcs"},
		{"Kubernetes", func(tb testing.TB) place {
			srv := kubelab.Start(tb)
			return place{srv.Addr, func(addr string) string { return kubernetesURL(tb, srv, addr) }}
		}, plainKubernetes, "kubernetes"},
	}
}

func startNATS(tb testing.TB, settings string) place {
	tb.Helper()
	srv := natslab.StartProcesses(tb, 1, settings)
	srv.AwaitReady()
	return around(strings.TrimPrefix(srv.URL(), "nats://"), "nats://", "/votes?create=true")
}

func ofDatabase(srv *databases.Server) place {
	return place{srv.Addr(), func(addr string) string { return srv.URL("lab", addr) + "&create=true" }}
}

func ofObjects(srv *objectlab.Server, url func(*objectlab.Server, string) string) place {
	return place{srv.Addr, func(addr string) string { return strings.ReplaceAll(url(srv, "votes"), srv.Addr, addr) }}
}

// open returns a new client.
func open(t *testing.T, url string) store.Opened {
	t.Helper()
	st, err := store.Open(within(t), url, natsstore.Driver(), k8sstore.Driver(), redisstore.Driver(), pgstore.Driver(), mysqlstore.Driver(), etcdstore.Driver(), consulstore.Driver(),
		s3store.Driver(), gcsstore.Driver())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), databases.Patience)
	t.Cleanup(cancel)
	return ctx
}

// TestFigures measures each store, one after the other. It judges what does not
// depend on the machine's speed: that no successor leads before a lease is
// over, and that a renewal is one round trip.
func TestFigures(t *testing.T) {
	r := &storefigures.Report{At: time.Now().UTC(), Rounds: *rounds, Load: reporting.Load()}
	for _, k := range kinds() {
		s := storefigures.Store{Name: k.name, Absent: "not measured: this machine has no server (`make servers SLICE=" + k.server + "`)"}
		if !t.Run(k.name, func(t *testing.T) { measure(t, k, &s) }) {
			s.Absent = "not measured: it failed"
		}
		r.Stores = append(r.Stores, s)
	}
	r.Stores = append(r.Stores, storefigures.Store{Name: "MongoDB", Absent: "not verified on a server"})
	r.Took = time.Since(r.At)
	if *file != "" {
		if err := r.Write(*file); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("%s\n`make stores`, %d rounds each, each store on a separate server, %s/%s, %d processors, %s, %s.\n",
		r.Markdown(), *rounds, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), r.At.Format(time.DateOnly))
	described := storefigures.KindsMarkdown(storefigures.Kinds())
	if *page == "" {
		t.Log("\n" + described + "\n" + text)
		return
	}
	for block, text := range map[storefigures.Block]string{storefigures.Described: described, storefigures.Measured: text} {
		if err := block.Fill(*page, text); err != nil {
			t.Fatal(err)
		}
	}
}

// measure measures a kind of store, or skips the test where there is no server.
func measure(t *testing.T, k kind, s *storefigures.Store) {
	t.Helper()
	p := k.start(t)
	s.Trips, s.Bytes = trips(t, p)
	if s.Trips != 1 {
		t.Errorf("a renewal takes %d round trips", s.Trips)
	}
	s.CPU = price(t, p.url())
	inTurn(t, p.url(), k.plain, s)
	s.Crash = crashes(t, p.url())
	s.Rest = rest(t, p.url())
	for _, n := range storefigures.Sizes() {
		s.Herds = append(s.Herds, herd(t, p.url(), n))
	}
	s.Heartbeat, s.TTL, s.Absent = heartbeat(handoverTTL), crashTTL, ""
}

// A writer renews one record.
type writer struct {
	st  store.Opened
	key string
	rev uint64
}

// newWriter returns one whose client has made what the store lacks, as an
// election's start does.
func newWriter(t *testing.T, url, key string) *writer {
	t.Helper()
	st := open(t, url)
	if c, ok := st.(store.Checker); ok {
		if _, err := c.Check(within(t), store.CheckRequest{TTL: time.Second, Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return &writer{st: st, key: key}
}

// watch has the client watch the record, as a candidate's does.
func (w *writer) watch(t *testing.T) {
	t.Helper()
	if st, ok := w.st.(store.Watcher); ok {
		stop, err := st.Watch(context.WithoutCancel(t.Context()), []string{w.key}, func(store.Entry) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
}

func (w *writer) swap(t *testing.T) {
	t.Helper()
	next, err := w.st.CompareAndSwap(within(t), store.Write{Key: w.key, Expected: w.rev, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	w.rev = next
}

// price measures the processor time of a renewal, of many in a row.
func price(t *testing.T, url string) time.Duration {
	t.Helper()
	w := newWriter(t, url, "price")
	before := spent()
	for range *rounds {
		w.swap(t)
	}
	return (spent() - before) / time.Duration(*rounds)
}

// A candidate reports when it leads.
type candidate struct {
	leader.Election
	id  string
	st  store.Opened
	led chan time.Time

	claims atomic.Int64
}

// The leases of the elections that hand over, and of those whose leader
// crashes.
const (
	handoverTTL = 10 * time.Second
	crashTTL    = time.Second
)

// heartbeat is how often a leader with such a lease renews it.
func heartbeat(ttl time.Duration) time.Duration { return ttl / 5 }

func stand(t *testing.T, url, group, id string, ttl time.Duration) *candidate {
	t.Helper()
	return standOn(t, open(t, url), group, id, ttl)
}

// standOn is stand over a store that is open.
func standOn(t *testing.T, st store.Opened, group, id string, ttl time.Duration) *candidate {
	t.Helper()
	c := &candidate{id: id, st: st, led: make(chan time.Time, 1)}
	e, err := leader.NewElectionWithStore(c.st, leader.ElectionConfig{
		Group: group, InstanceID: id, TTL: ttl, HeartbeatInterval: heartbeat(ttl), AcquireGrace: leader.GraceOff, DeleteOnStop: true,
		Hooks: leader.Hooks{Transition: func(tr leader.Transition) {
			if tr.To == leader.StateLeader {
				c.led <- time.Now()
			}
		}, Call: func(call leader.Call) {
			if call.Kind == "acquire" {
				c.claims.Add(1)
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Election = e
	if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return c
}

// leads waits until the candidate leads, and returns since when.
func (c *candidate) leads(t *testing.T) (since time.Time) {
	t.Helper()
	select {
	case since = <-c.led:
	case <-time.After(databases.Patience):
		t.Fatalf("it does not lead: %+v", c.Status())
	}
	return since
}

// follows waits until the candidate knows who leads.
func (c *candidate) follows(t *testing.T, id string) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	limit := time.After(databases.Patience)
	for c.Status().State != leader.StateFollower || c.Status().LeaderID != id {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("it does not follow %s: %+v", id, c.Status())
		}
	}
}

// idle is how long nothing is asked of the store before each thing that is
// measured. Renewals and handovers come to an idle machine, and to wake it
// is a good part of both. Without the rest, a write would be measured on a
// machine that is awake from the write before, and a handover on one that is
// not.
const idle = 10 * time.Millisecond

// inTurn measures renewals, the same by the store's client alone, the least
// that handovers take, and handovers, in turn and each after the same rest, so
// that all meet the same machine. The first two alternate in which comes first,
// since an earlier write may affect a server.
func inTurn(t *testing.T, url string, openPlain func(*testing.T, string) *plain, s *storefigures.Store) {
	t.Helper()
	w := newWriter(t, url, "swaps")
	w.watch(t)
	defer func() { _ = w.st.Close() }() // what is measured afterwards is without it
	w.swap(t)
	p := openPlain(t, url)
	first := must(p.from(0))(t)
	at := must(p.from(first))(t)
	if _, err := p.from(first); err == nil {
		t.Errorf("without the library a write that expects revision %d is applied at revision %d: that is not a compare-and-swap", first, at)
	}
	two := newPair(t, url)
	ours := func() {
		<-time.After(idle)
		begun := time.Now()
		w.swap(t)
		s.Swap = append(s.Swap, time.Since(begun))
	}
	without := func(write func(*testing.T, uint64) (began, ended time.Time, next uint64)) time.Duration {
		<-time.After(idle)
		began, ended, next := write(t, at)
		at = next
		return ended.Sub(began)
	}
	for round := range *rounds {
		if round%2 == 0 {
			ours()
		}
		s.Plain = append(s.Plain, without(p.renewal))
		if round%2 != 0 {
			ours()
		}
		if p.news != nil {
			s.Least = append(s.Least, without(p.handover))
		}
		s.Handover = append(s.Handover, two.handOver(t))
	}
}

// A pair of candidates hands over from one to the other, and back.
type pair struct{ from, to *candidate }

func newPair(t *testing.T, url string) *pair {
	t.Helper()
	a := stand(t, url, "handovers", "a", handoverTTL)
	a.leads(t)
	return &pair{a, stand(t, url, "handovers", "b", handoverTTL)}
}

// handOver measures from the leader's Resign to its successor's promotion.
func (p *pair) handOver(t *testing.T) time.Duration {
	t.Helper()
	p.to.follows(t, p.from.id)
	<-time.After(idle)
	begun := time.Now()
	if err := p.from.Resign(within(t)); err != nil {
		t.Fatal(err)
	}
	took := p.to.leads(t).Sub(begun)
	p.from, p.to = p.to, p.from
	return took
}

// crashes measures from the end of a leader's connection to its successor's
// promotion. The leader renewed just before: its lease runs whole.
func crashes(t *testing.T, url string) (all harness.Samples) {
	t.Helper()
	for i := range 3 {
		group := fmt.Sprint("crashes", i)
		a := stand(t, url, group, "a", crashTTL)
		a.leads(t)
		b := stand(t, url, group, "b", crashTTL)
		b.follows(t, "a")
		at := renewed(t, a)
		_ = a.st.Close() // which is the crash
		b.leads(t)
		took := time.Since(at)
		if took < crashTTL {
			t.Errorf("the successor leads %v after the renewal, in a lease of %v", took, crashTTL)
		}
		all = append(all, took)
	}
	return all
}

// herd measures handovers among n candidates. They share twenty clients, since
// databases have no room for a connection of each.
func herd(t *testing.T, url string, n int) storefigures.Herd {
	t.Helper()
	const clients = 20
	var stores []store.Opened
	var all []*candidate
	for i := range n {
		if i < clients {
			stores = append(stores, open(t, url))
		}
		all = append(all, standOn(t, stores[i%clients], fmt.Sprint("herd", n), fmt.Sprint("c", i), handoverTTL))
		if i == 0 {
			all[0].leads(t)
		}
	}
	h := storefigures.Herd{Candidates: n}
	leading := all[0]
	for range min(*rounds, 15) {
		for _, c := range all {
			if c != leading {
				c.follows(t, leading.id)
			}
		}
		<-time.After(idle)
		before := claims(all)
		begun := time.Now()
		if err := leading.Resign(within(t)); err != nil {
			t.Fatal(err)
		}
		var took time.Duration
		leading, took = promoted(t, all, begun)
		h.Took = append(h.Took, took)
		for _, c := range all {
			if c != leading {
				c.follows(t, leading.id)
			}
		}
		h.Claims = append(h.Claims, time.Duration(claims(all)-before))
	}
	for _, c := range all {
		_ = c.Stop()
	}
	return h
}

func claims(all []*candidate) (n int64) {
	for _, c := range all {
		n += c.claims.Load()
	}
	return n
}

// promoted waits until one of the candidates leads, and returns it and how long
// that took.
func promoted(t *testing.T, all []*candidate, begun time.Time) (*candidate, time.Duration) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	limit := time.After(databases.Patience)
	for {
		for _, c := range all {
			select {
			case at := <-c.led:
				return c, at.Sub(begun)
			default:
			}
		}
		select {
		case <-look.C:
		case <-limit:
			t.Fatal("nobody leads")
		}
	}
}

// rest measures the cost of elections while nothing changes: the part of a
// processor that a leader and ten followers take, each with its own client. The
// leader renews each second. The server's share is not included.
func rest(t *testing.T, url string) float64 {
	t.Helper()
	const ttl = 5 * time.Second
	var all []*candidate
	for i := range 11 {
		c := stand(t, url, "rest", fmt.Sprint("c", i), ttl)
		all = append(all, c)
		if i == 0 {
			c.leads(t)
		}
	}
	for _, c := range all[1:] {
		c.follows(t, "c0")
	}
	from, before := time.Now(), spent()
	<-time.After(time.Duration(*rounds) * ttl / 20) // this is what is measured
	part := float64(spent()-before) / float64(time.Since(from))
	return part
}

// spent is the processor time of this process.
func spent() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0 // it knows its own process
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// renewed waits for the leader's next renewal, and returns when it left.
func renewed(t *testing.T, c *candidate) time.Time {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	limit := time.After(databases.Patience)
	for before := c.Status().LastHeartbeat; ; {
		if at := c.Status().LastHeartbeat; at != before {
			return at
		}
		select {
		case <-look.C:
		case <-limit:
			t.Fatal("no renewal")
		}
	}
}
