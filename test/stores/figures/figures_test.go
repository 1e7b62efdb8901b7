//go:build unix

// Package figures_test measures elections over each kind of store, and writes
// the table of docs/stores.md.
package figures_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/etcdstore"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/test/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/stores/objectlab"
)

var (
	rounds = flag.Int("rounds", 4, "how many writes and handovers to measure in each store")
	page   = flag.String("page", "", "the page whose table is to be written; none: it is printed")
)

// A kind is a store on a server of its own.
type kind struct {
	name  string
	start func(testing.TB) string // returns the store's URL
	// plain opens the store there without this library; nil: it brings no news.
	plain func(t *testing.T, url string) *plain
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
		{"NATS", func(tb testing.TB) string { return startNATS(tb, "") }, plainNATS},
		// As durable as the others are, which sync their files before they answer.
		{"NATS, each write synced", func(tb testing.TB) string {
			return startNATS(tb, fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }", tb.TempDir()))
		}, plainNATS},
		{"Redis", func(tb testing.TB) string {
			return "redis://" + databases.StartRedis(tb, "--appendonly", "yes", "--appendfsync", "always").Addr()
		}, plainRedis},
		{"PostgreSQL", func(tb testing.TB) string { return lab.OwnPostgreSQL(tb).DSN("lab") + "&create=true" }, plainPostgres},
		{"MariaDB", func(tb testing.TB) string {
			srv := lab.OwnMariaDB(tb)
			return srv.URL("lab", srv.Addr()) + "&create=true"
		}, nil},
		{"etcd", func(tb testing.TB) string {
			return "etcd://" + strings.TrimPrefix(etcdlab.Start(tb, 1).URLs()[0], "http://") + "/votes/"
		}, plainEtcd},
		{"Consul", func(tb testing.TB) string { return "consul://" + consullab.Start(tb, 1).Nodes[0].Addr + "/votes/" }, plainConsul},
		{"S3 (versitygw)", func(tb testing.TB) string { return objectlab.StartS3(tb).S3URL("votes") }, nil},
		{"GCS (an emulator)", func(tb testing.TB) string { return objectlab.StartGCS(tb).GCSURL("votes") }, nil},
		{"Kubernetes", func(tb testing.TB) string {
			return kubelab.Start(tb).URL(tb, "default")
		}, plainKubernetes},
	}
}

func startNATS(tb testing.TB, settings string) string {
	tb.Helper()
	srv := natslab.StartProcesses(tb, 1, settings)
	srv.AwaitReady()
	return srv.URL() + "/votes?create=true"
}

// open returns a client of its own.
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
// depend on the machine's speed: that no successor leads before a lease is over.
func TestFigures(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "| store | compare-and-swap, p50 (p99) | its CPU time | two and the news between, without the library, p50 | handover, p50 (p99)"+
		" | handover / compare-and-swap | crash / TTL | CPU of 1 leader and 10 followers |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			url := k.start(t)
			cost := price(t, url)
			swap, least, over := inTurn(t, url, k.plain)
			crash := crashes(t, url)
			fmt.Fprintf(&b, "| %s | %s | %.2f ms | %s | %s | %.1f | %.2f | %.1f %% |\n", k.name, swap, ms(cost), least.middle(),
				over, float64(over.median())/float64(swap.median()), crash, 100*rest(t, url))
		})
	}
	fmt.Fprintln(&b, "| MongoDB | not verified on a server | | | | | |")
	fmt.Fprintf(&b, "\n`make stores`, %d rounds each, each store on one server of its own, %s/%s, %d processors, %s, %s.\n",
		*rounds, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format(time.DateOnly))
	if *page == "" {
		t.Log("\n" + b.String())
		return
	}
	write(t, *page, b.String())
}

// times are what rounds took, sorted.
type times []time.Duration

func (s times) median() time.Duration { return s[len(s)/2] }

// middle is the median for people, a dash where nothing was measured.
func (s times) middle() string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f ms", ms(s.median()))
}

func (s times) String() string {
	return fmt.Sprintf("%.2f ms (%.2f)", ms(s.median()), ms(s[len(s)*99/100]))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

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

// A candidate tells when it leads.
type candidate struct {
	leader.Election
	id  string
	st  store.Opened
	led chan time.Time
}

func stand(t *testing.T, url, group, id string, ttl time.Duration) *candidate {
	t.Helper()
	c := &candidate{id: id, st: open(t, url), led: make(chan time.Time, 1)}
	e, err := leader.NewElectionWithStore(c.st, leader.ElectionConfig{
		Group: group, InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 5, AcquireGrace: leader.GraceOff, DeleteOnStop: true,
		Hooks: leader.Hooks{Transition: func(tr leader.Transition) {
			if tr.To == leader.StateLeader {
				c.led <- time.Now()
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
// measured. Renewals and handovers come to a machine that rests, and to wake it
// is a good part of both. Without the rest, a write would be measured on a
// machine that is awake from the write before, and a handover on one that is not.
const idle = 10 * time.Millisecond

// inTurn measures renewals, the least that handovers take, and handovers, in
// turn and each after the same rest.
func inTurn(t *testing.T, url string, openPlain func(*testing.T, string) *plain) (swap, least, over times) {
	t.Helper()
	w := newWriter(t, url, "swaps")
	w.watch(t)
	defer func() { _ = w.st.Close() }() // what is measured afterwards is without it
	w.swap(t)
	var p *plain
	var at uint64
	if openPlain != nil {
		p = openPlain(t, url)
		at = must(p.from(0))(t)
	}
	two := newPair(t, url)
	two.handOver(t) // the first after a start waits for rivals who started with it
	for range *rounds {
		<-time.After(idle)
		begun := time.Now()
		w.swap(t)
		swap = append(swap, time.Since(begun))
		if p != nil {
			<-time.After(idle)
			var ended time.Time
			begun, ended, at = p.handover(t, at)
			least = append(least, ended.Sub(begun))
		}
		over = append(over, two.handOver(t))
	}
	for _, s := range []times{swap, least, over} {
		slices.Sort(s)
	}
	return swap, least, over
}

// A pair of candidates hands over from one to the other, and back.
type pair struct{ from, to *candidate }

func newPair(t *testing.T, url string) *pair {
	t.Helper()
	a := stand(t, url, "handovers", "a", 10*time.Second)
	a.leads(t)
	return &pair{a, stand(t, url, "handovers", "b", 10*time.Second)}
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
// promotion, in leases. The leader renewed just before: its lease runs whole.
func crashes(t *testing.T, url string) float64 {
	t.Helper()
	const ttl = time.Second
	var all times
	for i := range 3 {
		group := fmt.Sprint("crashes", i)
		a := stand(t, url, group, "a", ttl)
		a.leads(t)
		b := stand(t, url, group, "b", ttl)
		b.follows(t, "a")
		at := renewed(t, a)
		_ = a.st.Close() // which is the crash
		b.leads(t)
		took := time.Since(at)
		if took < ttl {
			t.Errorf("the successor leads %v after the renewal, in a lease of %v", took, ttl)
		}
		all = append(all, took)
	}
	slices.Sort(all)
	return float64(all.median()) / float64(ttl)
}

// rest measures what elections cost while nothing changes: the part of a
// processor that a leader and ten followers take, each with a client of its own.
// The leader renews each second. What the server takes is not in it.
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

// between finds the table of the page.
var between = regexp.MustCompile(`(?s)(<!-- written by make stores -->\n).*?(<!-- written by make stores: end -->)`)

func write(t *testing.T, page, table string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(page))
	if err != nil {
		t.Fatal(err)
	}
	if !between.Match(text) {
		t.Fatalf("%s has no place for the table", page)
	}
	text = between.ReplaceAll(text, []byte("${1}"+table+"${2}"))
	if err := os.WriteFile(filepath.Clean(page), text, 0o644); err != nil {
		t.Fatal(err)
	}
}
