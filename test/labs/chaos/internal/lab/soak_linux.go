package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/faults"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/process"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/results"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Soak is a long run with a fault now and then, in which whatever leaks has
// time to show.
type Soak struct {
	Seed    uint64
	For     time.Duration
	Every   time.Duration   // one fault each
	Program process.Program // of the candidates
}

// Run holds the soak.
func (k Soak) Run(ctx context.Context, log io.Writer) (res results.SoakResult, err error) {
	dir, err := os.MkdirTemp("", "leader-soak-")
	if err != nil {
		return res, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	res.Kinds = faults.Kinds()
	p := schedule.DrawSoak(k.Seed, int(k.For/k.Every), res.Kinds)
	if res.OneClock = k.Program.OneClock; res.OneClock != nil {
		p = p.OnOneClock()
	}
	fmt.Fprintf(log, "soak: seed %d, %s, %d candidates, %s, TTL %v, %d faults\n",
		p.Seed, p.Shape.Name, p.Candidates, p.Clocks(), p.TTL, len(p.Episodes))
	w := &watcher{begun: time.Now()}
	o := round.Run(ctx, p, dir, process.NewLauncher(k.Program.Binary), natslab.Command{}, func(r *round.Round) {
		w.connect(r)
		for i, e := range p.Episodes {
			if ctx.Err() != nil {
				return
			}
			r.Play(e, faults.Do)
			w.look(r)
			fmt.Fprintf(log, "  %v: %d of %d, %v; %s\n", time.Since(w.begun).Round(time.Second), i+1, len(p.Episodes), e, w.latest())
			r.Sleep(time.Until(w.begun.Add(time.Duration(i+1) * k.Every)))
		}
	})
	res.Take(o, log)
	res.Series = w.series
	return res, nil
}

// A watcher looks at the candidates and the servers, after each fault, when
// somebody leads again.
type watcher struct {
	begun  time.Time
	system *nats.Conn
	series []*results.Series
}

const kib = 1 << 10

// connect connects to the servers as one who may ask how they are.
func (w *watcher) connect(r *round.Round) {
	w.system = r.System()
}

func (w *watcher) add(name string, unit, limit, value float64) {
	i := slices.IndexFunc(w.series, func(s *results.Series) bool { return s.Name == name })
	if i < 0 {
		i = len(w.series)
		w.series = append(w.series, &results.Series{Name: name, Unit: unit, Limit: limit})
	}
	w.series[i].Add(time.Since(w.begun).Hours(), value)
}

// Limits of growth per hour. A leak of one a fault is 60.
const (
	heapLimit  = 512 * kib
	countLimit = 3
)

// look takes one value of everything.
func (w *watcher) look(r *round.Round) {
	for _, s := range r.Contenders {
		v := vitals(r, s.Process())
		w.add("heap of "+s.ID+", KiB", kib, heapLimit, float64(v.HeapBytes))
		w.add("goroutines of "+s.ID, 1, countLimit, float64(v.Goroutines))
		w.add("descriptors of "+s.ID, 1, countLimit, float64(v.Descriptors))
	}
	var consumers int
	r.Eventually("the stream reports its consumers", round.Healing, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		state, err := r.State(ctx)
		consumers = state.Consumers
		return err
	})
	w.add("consumers of the bucket", 1, countLimit, float64(consumers))
	connections, subscriptions := w.servers(r)
	w.add("connections to the servers", 1, countLimit, float64(connections))
	w.add("subscriptions on the servers", 1, 2*countLimit, float64(subscriptions))
}

func (w *watcher) latest() string {
	heap, goroutines := 0.0, 0.0
	for _, s := range w.series {
		last := s.Last()
		switch s.Limit {
		case heapLimit:
			heap += last
		case countLimit:
			goroutines += last
		}
	}
	return fmt.Sprintf("%.0f KiB of heap, %.0f of goroutines, descriptors, consumers and connections", heap/kib, goroutines)
}

// vitals asks a process for its vitals.
func vitals(r *round.Round, p *process.Process) history.Vitals {
	count := func() (n int, last history.Vitals) {
		f, err := os.Open(p.Events())
		r.Check(err)
		defer f.Close() //nolint:errcheck // it was read
		events, err := history.Events(f)
		r.Check(err)
		for _, e := range events {
			if e.Kind == history.EventVitals {
				n, last = n+1, *e.Vitals
			}
		}
		return n, last
	}
	before, _ := count()
	p.Tell(candidate.Vitals)
	var v history.Vitals
	if !r.Poll(natslab.Patience, func() bool {
		n, last := count()
		v = last
		return n > before
	}) {
		r.Fatalf("%s does not report its vitals", p.Name())
	}
	return v
}

// servers asks all servers for the numbers of their connections and
// subscriptions.
func (w *watcher) servers(r *round.Round) (connections, subscriptions int) {
	r.Eventually("all servers report their state", round.Healing, func(ctx context.Context) error {
		connections, subscriptions = 0, 0
		inbox := w.system.NewRespInbox()
		sub, err := w.system.SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer sub.Unsubscribe() //nolint:errcheck // the connection may be lost
		if err := w.system.PublishRequest("$SYS.REQ.SERVER.PING.STATSZ", inbox, nil); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		for range r.Servers.Nodes {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return err
			}
			var v struct {
				Statsz struct {
					Connections   int `json:"connections"`
					Subscriptions int `json:"subscriptions"`
				} `json:"statsz"`
			}
			if err := json.Unmarshal(m.Data, &v); err != nil {
				return err
			}
			connections += v.Statsz.Connections
			subscriptions += v.Statsz.Subscriptions
		}
		return nil
	})
	return connections, subscriptions
}
