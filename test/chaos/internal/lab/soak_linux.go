package lab

import (
	"context"
	_ "embed" // the page
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/template"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/internal/reporting"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Soak is a long run with a fault now and then, in which whatever leaks has
// time to show.
type Soak struct {
	Seed    uint64
	For     time.Duration
	Every   time.Duration // one fault each
	Program Program       // of the candidates
}

// soakShape is the one with the most to lose.
var soakShape = shapes[1]

// soakSpares are the faults by which processes end, whose heaps are to be
// watched, and the herd, which is three minutes' work for the machine.
var soakSpares = []string{"kill", "stop", "herd"}

// A series is a quantity over time.
type series struct {
	name  string
	unit  float64 // what is printed is a multiple of it
	limit float64 // of its growth per hour
	at    []float64
	value []float64
}

// warmUp is the part of a soak before its slopes count.
const warmUp = 0.2

// fewest is how many values a slope needs at the least.
const fewest = 10

// slope returns the growth per hour by least squares after the warm-up, and the
// standard error of that.
func (s *series) slope() (perHour, stderr float64, n int) {
	from := int(math.Ceil(warmUp * float64(len(s.at))))
	at, value := s.at[from:], s.value[from:]
	n = len(at)
	if n < 3 {
		return 0, 0, n
	}
	mt, mv := mean(at), mean(value)
	var tt, tv float64
	for i := range at {
		tt += (at[i] - mt) * (at[i] - mt)
		tv += (at[i] - mt) * (value[i] - mv)
	}
	b := tv / tt
	var rest float64
	for i := range at {
		d := value[i] - mv - b*(at[i]-mt)
		rest += d * d
	}
	return b, math.Sqrt(rest / float64(n-2) / tt), n
}

// grows reports whether the slope is certainly beyond the limit: by three
// standard errors.
func (s *series) grows() bool {
	b, stderr, _ := s.slope()
	return b-3*stderr > s.limit
}

func mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}

// A SoakResult is what a soak showed.
type SoakResult struct {
	Result
	series []*series
}

// Run holds the soak.
func (k Soak) Run(ctx context.Context, log io.Writer) (res SoakResult, err error) {
	dir, err := os.MkdirTemp("", "leader-soak-")
	if err != nil {
		return res, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p := drawSoak(k.Seed, int(k.For/k.Every))
	if res.oneClock = k.Program.OneClock; res.oneClock != nil {
		p.rates = nil
	}
	fmt.Fprintf(log, "soak: seed %d, %s, %d candidates, %s, TTL %v, %d faults\n",
		p.seed, p.shape.name, p.candidates, p.clocks(), p.ttl, len(p.episodes))
	w := &watcher{begun: time.Now()}
	o := run(ctx, p, dir, newLauncher(k.Program.Binary), func(r *round) {
		w.connect(r)
		for i, e := range p.episodes {
			if ctx.Err() != nil {
				return
			}
			r.play(e)
			w.look(r)
			fmt.Fprintf(log, "  %v: %d of %d, %v; %s\n", time.Since(w.begun).Round(time.Second), i+1, len(p.episodes), e, w.latest())
			r.sleep(time.Until(w.begun.Add(time.Duration(i+1) * k.Every)))
		}
	})
	res.take(o, log)
	res.series = w.series
	return res, nil
}

// Verdict is that of the run, and of the slopes.
func (r *SoakResult) Verdict() error {
	errs := []error{r.Result.Verdict()}
	for _, s := range r.series {
		b, stderr, n := s.slope()
		if n < fewest {
			errs = append(errs, fmt.Errorf("too little happened: %d values of %s after the warm-up, and a slope needs %d", n, s.name, fewest))
		}
		if s.grows() {
			errs = append(errs, fmt.Errorf("%s grow by %.1f (± %.1f) per hour, and may by %.1f", s.name, b/s.unit, stderr/s.unit, s.limit/s.unit))
		}
	}
	return errors.Join(errs...)
}

// Print prints the tables.
func (r *SoakResult) Print(w io.Writer) error {
	_, err := io.WriteString(w, "\n"+r.slopes()+"\n")
	return errors.Join(err, r.Result.Print(w))
}

//go:embed soak.md
var soakPage string

// Page writes the page of results.
func (r *SoakResult) Page(w io.Writer, command string) error {
	t, err := template.New("soak").Parse(soakPage)
	if err != nil {
		return err
	}
	verdict := "Passed: no violation, and nothing grows."
	if err := r.Verdict(); err != nil {
		verdict = "Failed: " + err.Error()
	}
	return t.Execute(w, map[string]string{
		"Command": command, "When": r.when(), "Verdict": reporting.Fill(verdict), "Slopes": r.slopes(), "Summary": r.summary(), "Faults": r.faultTable(),
	})
}

// slopes is a table of what grows.
func (r *SoakResult) slopes() string {
	t := table{head: []string{"watched", "values", "least", "median", "most", "slope per hour", "± (3 standard errors)", "limit", ""}}
	for _, s := range r.series {
		b, stderr, n := s.slope()
		sorted := slices.Sorted(slices.Values(s.value))
		show := func(x float64) string { return fmt.Sprintf("%.1f", x/s.unit) }
		verdict := "ok"
		if s.grows() {
			verdict = "GROWS"
		}
		t.row(s.name, n, show(sorted[0]), show(sorted[len(sorted)/2]), show(sorted[len(sorted)-1]), show(b), show(3*stderr), show(s.limit), verdict)
	}
	return t.String()
}

// A watcher looks at the candidates and the servers, after each fault, when
// somebody leads again.
type watcher struct {
	begun  time.Time
	system *nats.Conn
	series []*series
}

const kib = 1 << 10

// connect connects to the servers as one who may ask how they are.
func (w *watcher) connect(r *round) {
	w.system = r.servers.Connect(r, nats.UserInfo(system, system))
}

func (w *watcher) add(name string, unit, limit, value float64) {
	i := slices.IndexFunc(w.series, func(s *series) bool { return s.name == name })
	if i < 0 {
		i = len(w.series)
		w.series = append(w.series, &series{name: name, unit: unit, limit: limit})
	}
	s := w.series[i]
	s.at, s.value = append(s.at, time.Since(w.begun).Hours()), append(s.value, value)
}

// Limits of growth per hour. A leak of one a fault is 60.
const (
	heapLimit  = 512 * kib
	countLimit = 3
)

// look takes one value of everything.
func (w *watcher) look(r *round) {
	for _, s := range r.seats {
		v := r.vitals(s.process())
		w.add("heap of "+s.id+", KiB", kib, heapLimit, float64(v.HeapBytes))
		w.add("goroutines of "+s.id, 1, countLimit, float64(v.Goroutines))
		w.add("descriptors of "+s.id, 1, countLimit, float64(v.Descriptors))
	}
	var consumers int
	r.eventually("the stream tells of its consumers", healing, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		s, err := r.js.Stream(ctx, stream)
		if err == nil {
			consumers = s.CachedInfo().State.Consumers
		}
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
		last := s.value[len(s.value)-1]
		switch s.limit {
		case heapLimit:
			heap += last
		case countLimit:
			goroutines += last
		}
	}
	return fmt.Sprintf("%.0f KiB of heap, %.0f of goroutines, descriptors, consumers and connections", heap/kib, goroutines)
}

// vitals asks a process for its vitals.
func (r *round) vitals(p *process) history.Vitals {
	count := func() (n int, last history.Vitals) {
		f, err := os.Open(p.spec.Events)
		r.check(err)
		defer f.Close() //nolint:errcheck // it was read
		events, err := history.Events(f)
		r.check(err)
		for _, e := range events {
			if e.Kind == history.EventVitals {
				n, last = n+1, *e.Vitals
			}
		}
		return n, last
	}
	before, _ := count()
	p.tell(candidate.Vitals)
	var v history.Vitals
	if !r.poll(natslab.Patience, func() bool {
		n, last := count()
		v = last
		return n > before
	}) {
		r.Fatalf("%s does not tell its vitals", p.spec.Name)
	}
	return v
}

// servers asks all servers for the numbers of their connections and
// subscriptions.
func (w *watcher) servers(r *round) (connections, subscriptions int) {
	r.eventually("all servers tell how they are", healing, func(ctx context.Context) error {
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
		for range r.servers.Nodes {
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
