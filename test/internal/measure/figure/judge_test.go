package figure

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

func result(name string) *Result {
	return &Result{
		Library: name, Handover: harness.Samples{3e5}, RoundTrip: harness.Samples{1e5},
		Crashes: []Crash{{TTL: time.Second, Permitted: true, Samples: harness.Samples{111e7}}},
		Faults:  []Fault{{Name: "frozen", Trials: []Trial{{Beliefs: 100}, {Beliefs: 100}}}},
		Traffic: Traffic{Followers: 10, In: 1, Out: 12, Bytes: 1},
		Crowds: []Crowd{
			{Elections: 1000, Leading: Cost{CPU: .1, Heap: 1, Settled: 1000}, Following: Cost{CPU: .1, Heap: 1, Settled: 1000}},
			{Elections: large, Leading: Cost{CPU: .1, Heap: heapEach, Goroutines: 1, Settled: large}, Following: Cost{CPU: .1, Heap: 1, Settled: large}},
		},
		Herds: []Herd{herd(3, 4e5, 1), herd(20, 5e6+4e5, 1), herd(200, 25e6, 60)},
	}
}

func herd(n int, took time.Duration, claims int) Herd {
	return Herd{
		Candidates: n, Left: Succession{Took: harness.Samples{took}, Claims: []int{claims}},
		Died: Succession{Took: harness.Samples{2e9}, Claims: []int{(claims + 1) / 2}},
	}
}

func report() *Report {
	r := &Report{Results: []*Result{result("leader"), result("client-go"), result("etcd")}}
	r.Ours().Plain = Plain{Traffic: Traffic{Followers: 10, In: 1, Out: messagesPlain - 1}, Crowd: r.Ours().Crowds[0]}
	for _, p := range r.Peers() {
		p.Handover[0], p.Herds[0].Left.Took[0], p.Crowds[0].Leading.CPU = 4e5, 2e6, 1
	}
	told := storefigures.Store{
		Name: "told", Swap: harness.Samples{2e5}, Trips: 1, Least: harness.Samples{5e5}, Handover: harness.Samples{7e5},
		Heartbeat: 2 * time.Second, Crash: harness.Samples{112e7}, TTL: time.Second,
	}
	looked := told
	looked.Name, looked.Least, looked.Handover, looked.Crash = "looked at", nil, harness.Samples{1e9 + 6e5}, harness.Samples{122e7}
	r.Stores = &storefigures.Report{Stores: []storefigures.Store{told, {Name: "absent", Absent: "no server"}, looked}}
	return r
}

// A single store beyond a target is enough.
func TestEachTargetOfTheStoresIsMissedBeyondItsBound(t *testing.T) {
	for _, c := range []struct {
		store  int
		worsen func(*storefigures.Store)
		figure string
	}{
		{0, func(s *storefigures.Store) { s.Handover = harness.Samples{7e5 + 1e4} }, "that reports changes"},
		{0, func(s *storefigures.Store) { s.Crash = harness.Samples{112e7 + 1e6} }, "crash failover over each store"},
		{0, func(s *storefigures.Store) { s.Trips = 2 }, "a renewal"},
		{2, func(s *storefigures.Store) { s.Handover = harness.Samples{1e9 + 7e5} }, "that is looked at"},
		{2, func(s *storefigures.Store) { s.Crash = harness.Samples{122e7 + 1e6} }, "crash failover over each store"},
		{2, func(s *storefigures.Store) { s.Trips = 2 }, "a renewal"},
	} {
		r := report()
		s := &r.Stores.Stores[c.store]
		c.worsen(s)
		var missed []Verdict
		for _, v := range r.Judge() {
			if !v.Met {
				missed = append(missed, v)
			}
		}
		if len(missed) != 1 || !strings.Contains(missed[0].Figure, c.figure) || !strings.Contains(missed[0].Got, s.Name) {
			t.Errorf("%s, %s: %+v", s.Name, c.figure, missed)
		}
	}
}

func TestEachTargetIsMetAtItsBound(t *testing.T) {
	for _, v := range report().Judge() {
		if !v.Met {
			t.Errorf("%+v", v)
		}
	}
}

// Each figure, made worse, is a target that is missed; and no other.
func TestEachTargetIsMissedBeyondItsBound(t *testing.T) {
	for name, worsen := range map[string]func(ours *Result){
		"two leaders":       func(o *Result) { o.Faults[0].Trials[1].Works = 1 },
		"below etcd's":      func(o *Result) { o.Handover[0], o.RoundTrip[0] = 4e5, 2e5 },
		"compare-and-swap":  func(o *Result) { o.RoundTrip[0] = 9e4 },
		"crash failover":    func(o *Result) { o.Crashes[0].Samples[0] = 113e7 },
		"messages":          func(o *Result) { o.Traffic.Out = 12.1 },
		"not republish ≤":   func(o *Result) { o.Plain.Traffic.Out = messagesPlain },
		"not republish all": func(o *Result) { o.Plain.Crowd.Leading.Settled-- },
		"elections, led":    func(o *Result) { o.Crowds[0].Leading.CPU = 1.21 },
		"followed ≤":        func(o *Result) { o.Crowds[0].Following.CPU = .121 },
		"led, and followed": func(o *Result) { o.Crowds[1].Following.Settled-- },
		"goroutine":         func(o *Result) { o.Crowds[1].Leading.Goroutines = 1.1 },
		"of heap":           func(o *Result) { o.Crowds[1].Following.Heap = heapEach + 1 },
		"among 3":           func(o *Result) { o.Herds[0].Left.Took[0], o.Herds[1].Left.Took[0] = 4e5+1e3, 5e6 },
		"among 3 candidates below": func(o *Result) {
			o.Herds[0].Left.Took[0], o.RoundTrip[0], o.Handover[0] = 2e6, 1e6, 3e5
		},
		"more than among 3": func(o *Result) { o.Herds[1].Left.Took[0]++; o.Herds[1].Left.Took[0] += 1e3 },
		"≤ 60 claims":       func(o *Result) { o.Herds[2].Left.Claims = []int{61} },
		"≤ 25.0 ms":         func(o *Result) { o.Herds[2].Left.Took[0] += 1e3 },
		"≤ 30 claims":       func(o *Result) { o.Herds[2].Died.Claims = []int{31} },
	} {
		r := report()
		worsen(r.Ours())
		var missed []Verdict
		for _, v := range r.Judge() {
			if !v.Met {
				missed = append(missed, v)
			}
		}
		if len(missed) != 1 || !strings.Contains(missed[0].Figure+" "+missed[0].Target, name) {
			t.Errorf("%s: %+v", name, missed)
		}
	}
}

func TestTwoLeadersBreakAGuaranteeAlsoInAQuickRun(t *testing.T) {
	r := report()
	r.Quick = true
	if err := Broken(r.Judge()); err != nil {
		t.Errorf("a sound run: %v", err)
	}
	r.Ours().Handover[0] = time.Hour
	if err := Broken(r.Judge()); err != nil {
		t.Errorf("a slow run: %v", err)
	}
	r.Ours().Faults[0].Trials[0].Answer = time.Millisecond
	if err := Broken(r.Judge()); err == nil {
		t.Error("two leaders passed")
	}
}

func TestALastingOverlapIsTheWorst(t *testing.T) {
	f := Fault{Trials: []Trial{{Works: 2}, {Answer: 3}, {Works: 3, Open: true}}}
	if w := f.Worst(); !w.Open || w.Both() != 3 {
		t.Errorf("%+v", w)
	}
}

func TestMissingMeasurementsAreNamed(t *testing.T) {
	r := report()
	if err := errors.Join(r.Missing(), r.MissingOfStores()); err != nil {
		t.Fatal(err)
	}
	r.Results[2].Herds[1].Left.Took = nil
	if err := r.Missing(); err == nil || !strings.Contains(err.Error(), "etcd: herd") {
		t.Errorf("%v", err)
	}
	r = report()
	r.Stores = nil
	if err := r.MissingOfStores(); err == nil || !strings.Contains(err.Error(), "stores") {
		t.Errorf("%v", err)
	}
}

// Elections without a leader cost nothing, and must not count as a target met.
func TestCostOfACrowdIsJudgedOnlyIfItSettled(t *testing.T) {
	for side, of := range map[string]func(*Crowd) *Cost{
		"led": func(c *Crowd) *Cost { return &c.Leading }, "followed": func(c *Crowd) *Cost { return &c.Following },
	} {
		r := report()
		of(&r.Ours().Crowds[0]).Settled = 3
		missed := 0
		for _, v := range r.Judge() {
			if !v.Met && strings.HasPrefix(v.Figure, "CPU of 1000") && strings.Contains(v.Got, "3 of them") {
				missed++
			}
		}
		if err := r.Missing(); missed != 2 || err == nil || !strings.Contains(err.Error(), "leader: crowd") {
			t.Errorf("3 of 1000 %s: %d targets of CPU are missed, want 2; missing: %v", side, missed, err)
		}
		r = report()
		of(&r.Of("client-go").Crowds[0]).Settled = 3
		for _, v := range r.Judge() {
			if strings.HasPrefix(v.Figure, "CPU of 1000") {
				t.Errorf("3 of client-go's 1000 %s, and ours are compared with it: %+v", side, v)
			}
		}
		if err := r.Missing(); err == nil || !strings.Contains(err.Error(), "client-go: crowd") {
			t.Errorf("3 of client-go's 1000 %s; missing: %v", side, err)
		}
	}
}

func TestAStoreThatWasNotMeasuredMeetsNoTarget(t *testing.T) {
	for figure, forget := range map[string]func(*storefigures.Store){
		"that reports changes":           func(s *storefigures.Store) { s.Handover = nil },
		"crash failover over each store": func(s *storefigures.Store) { s.Crash = nil },
		"a renewal":                      func(s *storefigures.Store) { s.Trips = 0 },
		"":                               func(s *storefigures.Store) { s.Swap = nil },
	} {
		r := report()
		forget(&r.Stores.Stores[0])
		if err := r.MissingOfStores(); err == nil || !strings.Contains(err.Error(), "store told") {
			t.Errorf("%s; missing: %v", figure, err)
		}
		for _, v := range r.Judge() {
			if figure != "" && strings.Contains(v.Figure, figure) && (v.Met || v.Got != "not measured (told)") {
				t.Errorf("%+v", v)
			}
		}
	}
	r := report()
	r.Stores.Stores = r.Stores.Stores[1:2] // the one that is absent
	if err := r.MissingOfStores(); err == nil || !strings.Contains(err.Error(), "no store") {
		t.Errorf("no store; missing: %v", err)
	}
}
