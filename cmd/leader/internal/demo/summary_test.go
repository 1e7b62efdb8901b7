package demo

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A truth is a term as it was, whatever the demo hears of it and when.
type truth struct {
	worker   int
	term     uint64
	from, to int64 // its promotion, and its last sample
}

// A rehearsal is a stage whose workers are made up. Their reports come in
// order, as each process sends them, and late by as much as each likes, as on a
// machine that is overloaded.
type rehearsal struct {
	*stage

	rng    *rand.Rand
	clock  int64
	terms  []truth
	queues [][]report // of each worker
	late   []int64    // how late they come
	events []Event
}

const aMilli = int64(time.Millisecond)

func rehearse(seed uint64, workers int) *rehearsal {
	c := &Command{Workers: workers, Key: "demo", Bucket: "demo", TTL: time.Second}
	r := &rehearsal{stage: newStage(c.plan()), rng: rand.New(rand.NewPCG(seed, 1)), clock: 1e12}
	r.now = func() int64 { return r.clock }
	r.begun = r.clock
	r.tell = func(e Event) { r.events = append(r.events, e) }
	for w := range workers {
		r.processes = append(r.processes, &process{id: fmt.Sprint("w", w+1), told: r.clock})
		r.late = append(r.late, aMilli*r.rng.Int64N(3000))
	}
	r.queues = make([][]report, workers)
	at := r.clock
	for n := range uint64(8) {
		from := at + aMilli*(1+r.rng.Int64N(1500))
		x := truth{worker: r.rng.IntN(workers), term: 10 * (n + 1), from: from, to: from + aMilli*(20+r.rng.Int64N(1500))}
		r.terms = append(r.terms, x)
		r.queues[x.worker] = append(r.queues[x.worker], reportsOf(x)...)
		at = x.to
	}
	return r
}

// reportsOf is a worker's reports about a term.
func reportsOf(x truth) (all []report) {
	all = append(all, report{Kind: reportTransition, At: x.from, To: leader.StateLeader, Reason: "vacant", Term: x.term})
	for at := x.from; at < x.to; at += 20 * aMilli {
		last := min(at+20*aMilli, x.to)
		all = append(all,
			report{Kind: reportSamples, At: last, Samples: &samples{Asked: 1, Run: x.term, Term: x.term, Led: [][2]int64{{last, last}}}},
			report{Kind: reportStatus, At: last, Status: &status{State: leader.StateLeader, Leading: true, Seen: x.term, Renewed: last, Until: last + 900*aMilli}})
	}
	return append(all, report{Kind: reportTransition, At: x.to, From: leader.StateLeader, To: leader.StateFollower, Reason: "resigned", Term: x.term})
}

// play delivers the reports to the demo, and strikes now and then.
func (r *rehearsal) play() {
	for r.clock < r.terms[len(r.terms)-1].to && r.rng.IntN(1200) != 0 {
		r.clock += aMilli * r.rng.Int64N(30)
		r.hearUntil(func(w int) int64 { return r.clock - r.late[w] })
		r.tellOutcomes(false)
		if p := r.leader(); p != nil && r.rng.IntN(15) == 0 {
			t := r.trial(faults()[r.rng.IntN(len(faults()))], p)
			if t.Fault == Freeze || t.Fault == Cut {
				t.over = r.clock + 100*aMilli
			}
		}
	}
	end := r.clock
	r.clock = r.terms[len(r.terms)-1].to + 10e9
	r.terms = slices.DeleteFunc(r.terms, func(x truth) bool { return x.from > end })
	r.hearUntil(func(int) int64 { return end }) // every process is gone, and all its reports have arrived
	r.tellOutcomes(true)
}

func (r *rehearsal) hearUntil(limit func(worker int) int64) {
	for _, w := range r.rng.Perm(len(r.queues)) {
		for q := &r.queues[w]; len(*q) > 0 && (*q)[0].At <= limit(w); *q = (*q)[1:] {
			r.report(r.processes[w], (*q)[0])
		}
	}
}

// lastSample is when the leader of a term was seen last, in the reports up to
// the end.
func (r *rehearsal) lastSample(term uint64) int64 {
	for _, x := range r.leaderships {
		if x.term == term {
			return x.seen
		}
	}
	return 0
}

func TestASummaryAgreesWithWhatHappenedHoweverLateItIsHeard(t *testing.T) {
	const seeds = 500
	kinds := map[string]int{}
	for seed := range uint64(seeds) {
		r := rehearse(seed, 4)
		r.play()
		if sum := r.summary(); sum.Terms != len(r.terms) {
			t.Errorf("seed %d: %d terms, want %d", seed, sum.Terms, len(r.terms))
		}
		if told, want := r.told(); told != want {
			t.Errorf("seed %d: %d outcomes were reported, want %d", seed, told, want)
		}
		for _, x := range r.trials {
			kind, complaint := r.judge(x)
			kinds[kind]++
			if complaint != "" {
				t.Errorf("seed %d: %s: %+v", seed, complaint, x.Outcome)
			}
		}
		if t.Failed() {
			t.Fatalf("terms %+v", r.terms)
		}
	}
	t.Logf("%v", kinds)
	for _, kind := range []string{"failover", "late", "kept", "open"} {
		if kinds[kind] == 0 {
			t.Errorf("nothing of kind %s was seen", kind)
		}
	}
}

// A silent worker, which somebody has stopped, is not waited for forever. It
// may have led in between.
func TestReportedOutcomeOfAFaultDoesNotChange(t *testing.T) {
	r := rehearse(1, 3)
	promoted := func(w int, term uint64, at int64) {
		r.report(r.processes[w], report{Kind: reportTransition, At: at, To: leader.StateLeader, Reason: "vacant", Term: term})
	}
	promoted(0, 10, r.clock)
	r.clock += aMilli
	x := r.trial(Crash, r.processes[0])
	r.processes[0].gone = true
	promoted(2, 30, r.clock+2*aMilli)
	r.clock += int64(time.Second)
	r.tellOutcomes(false)
	if x.told {
		t.Error("it was reported before the worker had reported that it did not lead")
	}
	r.clock += int64(tellPatience)
	r.tellOutcomes(false)
	promoted(1, 20, x.at+aMilli)
	r.tellOutcomes(true)
	told, want := r.told()
	if sum := r.summary(); told != 1 || want != 1 || sum.Outcomes[0].NextTerm != 30 {
		t.Errorf("%d outcomes are reported for %d faults: %+v", told, want, sum.Outcomes)
	}
}

// told returns how many outcomes the events report, and how many faults have
// one.
func (r *rehearsal) told() (told, want int) {
	for _, e := range r.events {
		if e.Kind == EventFailover || e.Kind == EventKept || e.Kind == EventNote { // of one that came too late
			told++
		}
	}
	for _, x := range r.trials {
		if x.done {
			want++
		}
	}
	return told, want
}

// judge compares an outcome with the truth, and with the event that reported
// it.
func (r *rehearsal) judge(x *trial) (kind, complaint string) {
	at := slices.IndexFunc(r.terms, func(y truth) bool { return y.term == x.Term })
	if at < 0 || r.processes[r.terms[at].worker].id != x.Worker {
		return "", "it hit a term that was not"
	}
	if x.Kept {
		if r.lastSample(x.Term) < x.over {
			return "kept", "the leader did not outlive it"
		}
		return "kept", ""
	}
	if at == len(r.terms)-1 {
		if x.Leader != "" {
			return "open", "there was no successor"
		}
		return "open", ""
	}
	next := r.terms[at+1]
	switch {
	case x.NextTerm != next.term || x.Leader != r.processes[next.worker].id:
		return "", "another succeeded"
	case x.Late != (next.from < x.at):
		return "", "it was late, or was not"
	case x.Late:
		return "late", ""
	case x.Took != millis(time.Duration(next.from-x.at)) || x.Gap != millis(time.Duration(next.from-r.lastSample(x.Term))):
		return "", "the times are others"
	}
	for _, e := range slices.Backward(r.events) {
		if e.Kind == EventFailover && e.Fault == x.Fault && e.From == x.Worker && e.Term == x.NextTerm && e.Took == x.Took {
			if e.Gap != x.Gap || e.To != x.Leader {
				return "", "an event differs"
			}
			return "failover", ""
		}
	}
	return "", "no event reports it"
}

// A user who kills a worker from another terminal crashes the leader, unless
// another has followed it already, whose own report of that has not arrived.
func TestAWorkerThatIsKilledElsewhereIsACrashIfItLeads(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no signals")
	}
	r := rehearse(1, 3)
	defer close(r.done) // nobody takes their places
	for i, term := range []uint64{5, 6} {
		p := r.processes[i]
		p.cmd = exec.CommandContext(t.Context(), "sh", "-c", "kill -KILL $$")
		if p.cmd.Run() == nil || p.failed() {
			t.Fatalf("%v was not killed", p.cmd)
		}
		for _, said := range reportsOf(truth{term: term, from: r.clock, to: r.clock + 1})[:3] {
			r.report(p, said)
		}
	}
	r.ended(r.processes[0], nil)
	if r.open() {
		t.Errorf("it hit %s, which another had followed", r.trials[0].Worker)
	}
	r.ended(r.processes[1], nil)
	if !r.open() || len(r.trials) != 1 || r.trials[0].Worker != "w2" || r.trials[0].Fault != Crash {
		t.Errorf("of a crash of w2: %+v", r.trials)
	}
}
