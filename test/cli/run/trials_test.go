//go:build linux

package run_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	trials = flag.Int("trials", 14, "how many faults each arena goes through")
	arenas = flag.Int("arenas", 1, "how many arenas, side by side")
	only   = flag.String("only", "", "the one fault to go through, by its name")
	sole   = flag.String("kind", "", "the one kind of program on all hosts: plain, stubborn or forking")
	seed   = flag.Uint64("seed", 0, "of the order of the faults and the times between them; 0 for another each time")
)

// program is the built command.
var program string

func TestMain(m *testing.M) {
	if actAsProgram() {
		return
	}
	os.Exit(built.Run(m, &program))
}

// A fault strikes the host that leads. It returns what undoes it once another
// leads, or nil if no other need follow.
type fault struct {
	name   string
	strike func(h *host, r *leadership, rng *rand.Rand) (undo func())
}

func nothing() {}

// faults are what the hosts go through.
func faults() []fault {
	return []fault{
		{"candidate stopped", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.signal(syscall.SIGSTOP)
			return func() { h.signal(syscall.SIGCONT) }
		}},
		{"candidate stopped for less than its lease", func(h *host, _ *leadership, rng *rand.Rand) func() {
			h.signal(syscall.SIGSTOP)
			h.a.rest(time.Duration(rng.Int64N(int64(ttl))))
			h.signal(syscall.SIGCONT)
			return nil
		}},
		{"candidate killed", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.kill()
			return h.start
		}},
		{"candidate killed and started again at once", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.kill()
			h.start()
			return nothing
		}},
		{"candidate terminated", func(h *host, r *leadership, _ *rand.Rand) func() {
			h.signal(syscall.SIGTERM)
			if r.kind == stubborn {
				h.kill() // as a supervisor does when it loses patience
			}
			h.awaitEnd()
			return h.start
		}},
		{"program stopped, host cut off", func(h *host, r *leadership, _ *rand.Rand) func() {
			for pid := range r.pids {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
			}
			h.proxy.Hold(natslab.ToServer, natslab.ToClient)
			return h.proxy.Resume
		}},
		{"host cut off", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Hold(natslab.ToServer, natslab.ToClient)
			return h.proxy.Resume
		}},
		{"answers lost", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Hold(natslab.ToClient)
			return h.proxy.Resume
		}},
		{"connections refused", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Cut()
			return h.proxy.Resume
		}},
		{"guard killed", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.signalGuard(syscall.SIGKILL)
			return nothing
		}},
		{"candidate stopped, guard killed", func(h *host, r *leadership, _ *rand.Rand) func() {
			h.signal(syscall.SIGSTOP)
			if r.kind != forking { // nobody is left then who could find what the program has started
				h.signalGuard(syscall.SIGKILL)
			}
			return func() { h.signal(syscall.SIGCONT) }
		}},
		{"guard stopped, host cut off", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.signalGuard(syscall.SIGSTOP)
			h.proxy.Hold(natslab.ToServer, natslab.ToClient)
			return h.proxy.Resume
		}},
		{"record deleted", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.a.deleteRecord()
			return nothing
		}},
		{"server restarted", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.a.server.Restart()
			return nil
		}},
	}
}

// rest is a fault's own length, not a wait for something.
func (a *arena) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.t.Context().Done():
	}
}

// deleteRecord deletes the group's key, as nats kv del does.
func (a *arena) deleteRecord() {
	a.t.Helper()
	nc := a.server.Connect(a.t)
	defer nc.Close()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	kv, err := natslab.JetStream(a.t, nc).KeyValue(ctx, "leaders")
	if err == nil {
		err = kv.Delete(ctx, "trials")
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// The arenas are parallel, and the other tests are not: short leases are what
// they are about, and a busy machine lets those run out.
func TestNoTwoProgramsEverRun(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	for i := range *arenas {
		t.Run(fmt.Sprint("arena", i), func(t *testing.T) {
			t.Parallel()
			t.Logf("replay: go test ./cli/run -run %s -args -trials=%d -arenas=%d -seed=%d -only=%q -kind=%q",
				t.Name(), *trials, *arenas, s, *only, *sole)
			tryAll(t, rand.New(rand.NewPCG(s, uint64(i))))
		})
	}
}

func tryAll(t *testing.T, rng *rand.Rand) {
	kinds := []kind{plain, stubborn, forking}
	if k := kind(*sole); k != "" {
		kinds = []kind{k, k, k}
	}
	a := newArena(t, kinds)
	a.awaitTerm(0)
	seen := make(map[string]int)
	all := faults()
	if *only != "" {
		all = slices.DeleteFunc(all, func(f fault) bool { return f.name != *only })
	}
	if len(all) == 0 {
		t.Fatalf("-only=%q: no such fault", *only)
	}
	for i := range *trials {
		if i%len(all) == 0 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		f := all[i%len(all)]
		a.rest(time.Duration(rng.Int64N(int64(2 * heartbeat)))) // anywhere between two renewals
		a.look()
		term, r := a.latest()
		before := r.signs
		what := fmt.Sprintf("trial %d: %s, %s program of %s in term %d", i, f.name, r.kind, r.id, term)
		undo := f.strike(a.hosts[r.id], r, rng)
		if undo == nil {
			a.await("signs of life after "+what, func() bool {
				_, now := a.latest()
				return now.signs >= enough && (now != r || now.signs >= before+enough)
			})
		} else {
			a.awaitTerm(term)
			undo()
		}
		seen[f.name+" / "+string(r.kind)]++
		if found, _ := a.overlaps(); len(found) > 0 {
			t.Fatalf("%s:\n%s\n%s", what, strings.Join(found, "\n"), a.story())
		}
	}
	a.finish(seen)
}
