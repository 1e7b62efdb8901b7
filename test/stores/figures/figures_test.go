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
		{"NATS", func(tb testing.TB) string { return nats(tb, "") }},
		// As durable as the others are, which sync their files before they answer.
		{"NATS, each write synced", func(tb testing.TB) string {
			return nats(tb, fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }", tb.TempDir()))
		}},
		{"Redis", func(tb testing.TB) string {
			return "redis://" + databases.StartRedis(tb, "--appendonly", "yes", "--appendfsync", "always").Addr()
		}},
		{"PostgreSQL", func(tb testing.TB) string { return lab.OwnPostgreSQL(tb).DSN("lab") + "&create=true" }},
		{"MariaDB", func(tb testing.TB) string {
			srv := lab.OwnMariaDB(tb)
			return srv.URL("lab", srv.Addr()) + "&create=true"
		}},
		{"etcd", func(tb testing.TB) string {
			return "etcd://" + strings.TrimPrefix(etcdlab.Start(tb, 1).URLs()[0], "http://") + "/votes/"
		}},
		{"Consul", func(tb testing.TB) string { return "consul://" + consullab.Start(tb, 1).Nodes[0].Addr + "/votes/" }},
		{"S3 (versitygw)", func(tb testing.TB) string { return objectlab.StartS3(tb).S3URL("votes") }},
		{"GCS (an emulator)", func(tb testing.TB) string { return objectlab.StartGCS(tb).GCSURL("votes") }},
		{"Kubernetes", func(tb testing.TB) string {
			return kubelab.Start(tb).URL(tb, "default")
		}},
	}
}

func nats(tb testing.TB, settings string) string {
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
	fmt.Fprintf(&b, "| store | compare-and-swap, p50 (p99) | its CPU time | handover, p50 (p99) | handover / compare-and-swap | crash / TTL | CPU of 1 leader and 10 followers |\n"+
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			url := k.start(t)
			swap, cost := swaps(t, url)
			over := handovers(t, url)
			crash := crashes(t, url)
			fmt.Fprintf(&b, "| %s | %s | %.2f ms | %s | %.1f | %.2f | %.1f %% |\n", k.name, swap, float64(cost.Microseconds())/1000,
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

func (s times) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%.2f ms (%.2f)", ms(s.median()), ms(s[len(s)*99/100]))
}

// timed has f called again and again. f returns when what it measures began.
func timed(n int, f func() time.Time) (all times) {
	for range n {
		begun := f()
		all = append(all, time.Since(begun))
	}
	slices.Sort(all)
	return all
}

// swaps measures renewals of one record, and the processor time of each.
func swaps(t *testing.T, url string) (all times, cost time.Duration) {
	t.Helper()
	st := checked(t, open(t, url))
	value, rev := make([]byte, 300), uint64(0) // as long as a record
	for i := range value {
		value[i] = 'x'
	}
	before := spent()
	all = timed(*rounds, func() time.Time {
		begun := time.Now()
		next, err := st.CompareAndSwap(within(t), store.Write{Key: "swaps", Expected: rev, Value: value})
		if err != nil {
			t.Fatal(err)
		}
		rev = next
		return begun
	})
	return all, (spent() - before) / time.Duration(*rounds)
}

// checked has a store make what it lacks, as an election's start does.
func checked(t *testing.T, st store.Opened) store.Opened {
	t.Helper()
	if c, ok := st.(store.Checker); ok {
		if _, err := c.Check(within(t), store.CheckRequest{TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

// A candidate tells when it leads.
type candidate struct {
	leader.Election
	st  store.Opened
	led chan struct{}
}

func stand(t *testing.T, url, group, id string, ttl time.Duration) *candidate {
	t.Helper()
	c := &candidate{st: open(t, url), led: make(chan struct{}, 1)}
	e, err := leader.NewElectionWithStore(c.st, leader.ElectionConfig{
		Group: group, InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 5, AcquireGrace: leader.GraceOff, DeleteOnStop: true,
		Hooks: leader.Hooks{Transition: func(tr leader.Transition) {
			if tr.To == leader.StateLeader {
				c.led <- struct{}{}
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

// leads waits until the candidate leads.
func (c *candidate) leads(t *testing.T) {
	t.Helper()
	select {
	case <-c.led:
	case <-time.After(databases.Patience):
		t.Fatalf("it does not lead: %+v", c.Status())
	}
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

// handovers measures from a leader's Resign to its successor's promotion.
func handovers(t *testing.T, url string) times {
	t.Helper()
	a := stand(t, url, "handovers", "a", 10*time.Second)
	a.leads(t)
	b := stand(t, url, "handovers", "b", 10*time.Second)
	from, to, fromID := a, b, "a"
	return timed(*rounds, func() time.Time {
		to.follows(t, fromID)
		begun := time.Now()
		if err := from.Resign(within(t)); err != nil {
			t.Fatal(err)
		}
		to.leads(t)
		from, to = to, from
		fromID = map[string]string{"a": "b", "b": "a"}[fromID]
		return begun
	})
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
