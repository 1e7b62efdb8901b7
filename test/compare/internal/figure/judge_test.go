package figure

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
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
		Herd: HerdStats{Candidates: 200, Took: harness.Samples{1e6}, Claims: []int{4}},
	}
}

func report() *Report {
	r := &Report{Results: []*Result{result("leader"), result("client-go"), result("etcd")}}
	r.Ours().Plain = Plain{Traffic: Traffic{Followers: 10, In: 1, Out: messagesPlain - 1}, Crowd: r.Ours().Crowds[0]}
	for _, p := range r.Peers() {
		p.Handover[0], p.Herd.Took[0], p.Crowds[0].Leading.CPU = 4e5, 2e6, 1
	}
	return r
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
		"claims":            func(o *Result) { o.Herd.Claims = []int{41} },
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

func TestWhatWasNotMeasuredIsNamed(t *testing.T) {
	r := report()
	if err := r.Missing(); err != nil {
		t.Fatal(err)
	}
	r.Results[2].Herd.Took = nil
	if err := r.Missing(); err == nil || !strings.Contains(err.Error(), "etcd: herd") {
		t.Errorf("%v", err)
	}
}
