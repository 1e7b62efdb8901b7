package core_test

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/internal/core"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

var (
	seeds = flag.Int("tasks.seeds", 150, "how many worlds TestSimulation plays")
	base  = flag.Uint64("tasks.base", 1, "the first seed")
	lines = flag.Int("tasks.lines", 80, "how many lines of the log of a world that fails are shown")
)

// TestSimulation plays worlds of leaders, workers and a store, in which
// messages are lost, doubled, late and out of order, acknowledgements of writes
// are lost, reads are stale, and leaders and workers crash, freeze and act on
// although others have taken their place. Records and messages lie about terms.
// It judges by the workers' own logs and the history of the store.
func TestSimulation(t *testing.T) {
	total := map[string]int{}
	for i := range *seeds {
		seed := *base + uint64(i)
		w := newWorld(seed)
		if err := w.play(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, w.tail())
		}
		for k, n := range w.count {
			total[k] += n
		}
	}
	t.Logf("%d worlds: %v", *seeds, total)
	for _, what := range []string{"stale refused", "reassigned", "adopted", "conflict", "unknown", "takeover", "worker crash", "parked", "lost to another", "lie", "not found"} {
		if total[what] == 0 && *seeds >= 100 {
			t.Errorf("no world has shown: %s", what)
		}
	}
}

const (
	ms        = time.Millisecond
	simTasks  = 25
	simPoison = 3 // records of a term that there never is
	simLease  = 300 * ms
	faultsEnd = 20 * time.Second
	worldEnd  = 10 * time.Minute
)

// A world is one simulation.
type world struct {
	rnd   *rand.Rand
	now   time.Duration
	queue events
	seq   int
	calm  bool

	rev     uint64
	records map[string][]stored // the history of each task
	low     uint64

	term    uint64
	leaders []*simLeader
	workers []*simWorker
	// By the logs of workers.
	starts  map[wire.Ref]string // who ran an attempt
	success map[wire.Ref]bool   // it has ended well
	count   map[string]int
	log     []string
	failure error
}

type stored struct {
	rev uint64
	rec wire.Record
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

// Len implements heap.Interface, as the following do.
func (q *events) Len() int { return len(*q) }

// Less reports whether one is before another.
func (q *events) Less(i, j int) bool {
	a, b := (*q)[i], (*q)[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Swap swaps two events.
func (q *events) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

// Push adds one.
func (q *events) Push(x any) {
	if e, ok := x.(event); ok {
		*q = append(*q, e)
	}
}

// Pop takes the last one.
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

type simLeader struct {
	core    *core.Leader
	term    wire.Term
	alive   bool
	frozen  bool
	wake    time.Duration // when it looks at what is due
	waiting []func()      // what came while it was frozen
	watch   []stored      // not yet delivered
	ids     []string
	missed  map[string]int // reads in a row that did not find a task
}

type simWorker struct {
	core   *core.Worker
	name   string
	run    string
	alive  bool
	frozen bool
	wait   []func()
	newest uint64 // of all messages that this run was given
	stop   map[wire.Ref]bool
	lease  time.Duration
	held   int            // for how many messages it defers acting on them
	orders map[order]bool // those that came in the newest term known then
}

// An order is one to begin an attempt, of a term.
type order struct {
	ref  wire.Ref
	term uint64
}

func newWorld(seed uint64) *world {
	return &world{
		rnd: rand.New(rand.NewPCG(seed, 7)), records: map[string][]stored{}, starts: map[wire.Ref]string{},
		success: map[wire.Ref]bool{}, count: map[string]int{}, rev: 1000,
	}
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + d, w.seq, do})
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%v ", w.now)+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

func (w *world) tail() (text string) {
	for _, line := range w.log[max(0, len(w.log)-*lines):] {
		text += line + "\n"
	}
	return text
}

func (w *world) chance(p float64) bool { return !w.calm && w.rnd.Float64() < p }

// delay is how long a message takes.
func (w *world) delay() time.Duration {
	d := time.Duration(w.rnd.IntN(int(5 * ms)))
	if w.chance(0.05) {
		d += time.Duration(w.rnd.IntN(int(2 * time.Second)))
	}
	return d
}

func (w *world) play() error {
	for i := range 4 {
		sw := &simWorker{name: fmt.Sprintf("w%d", i)}
		w.workers = append(w.workers, sw)
		w.startWorker(sw)
	}
	w.elect()
	for i := range simTasks {
		w.after(time.Duration(w.rnd.IntN(int(faultsEnd))), func() { w.submit(i) })
	}
	for i := range simPoison {
		w.after(time.Duration(w.rnd.IntN(int(faultsEnd))), func() {
			w.apply(ids()[simTasks+i], 0, wire.Record{State: wire.Queued, Timeout: 2 * time.Second, MaxAttempts: 1000, Term: noTerm})
		})
	}
	for range 25 {
		w.after(time.Duration(w.rnd.IntN(int(faultsEnd))), w.fault)
	}
	w.after(faultsEnd, w.settle)
	for len(w.queue) > 0 && w.failure == nil && w.now < worldEnd && !w.finished() {
		e, _ := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	w.judge()
	return w.failure
}

func (w *world) finished() bool {
	if w.now <= faultsEnd {
		return false
	}
	for _, id := range ids()[:simTasks] {
		if h := w.records[id]; len(h) == 0 || !h[len(h)-1].rec.State.Finished() {
			return false
		}
	}
	return true
}

// noTerm is the number of a term that nobody has won.
const noTerm = 1 << 60

// ids returns the tasks that are to be done, and then the poisoned records.
func ids() (all []string) {
	for i := range simTasks {
		all = append(all, fmt.Sprintf("t%02d", i))
	}
	for i := range simPoison {
		all = append(all, fmt.Sprintf("p%02d", i))
	}
	return all
}

func (w *world) submit(i int) {
	rec := wire.Record{State: wire.Queued, Timeout: 2 * time.Second, MaxAttempts: 1000, Backoff: 10 * ms}
	switch i % 4 {
	case 1:
		rec.To.Worker = fmt.Sprintf("w%d", i%3)
	case 2:
		rec.To.Label = "even"
	case 3:
		rec.To.Key = fmt.Sprint(i)
	}
	w.apply(ids()[i], 0, rec)
}

// apply is the store's compare-and-swap.
func (w *world) apply(id string, expected uint64, rec wire.Record) (uint64, bool) {
	h := w.records[id]
	last := stored{}
	if len(h) > 0 {
		last = h[len(h)-1]
	}
	if last.rev != expected {
		return 0, false
	}
	switch {
	case last.rec.State.Finished():
		w.fail("%s was finished and is written again: %+v", id, rec)
	case rec.Term < last.rec.Term:
		w.fail("%s: term %d writes after term %d", id, rec.Term, last.rec.Term)
	case rec.State == wire.Assigned && rec.Attempt != last.rec.Attempt+1:
		w.fail("%s: attempt %d follows %d", id, rec.Attempt, last.rec.Attempt)
	case rec.State == wire.Done && !w.success[wire.Ref{ID: id, Attempt: rec.Attempt}]:
		w.fail("%s: attempt %d is done by the record, and by no worker", id, rec.Attempt)
	}
	if rec.Attempt > 1 && rec.State == wire.Assigned {
		w.count["reassigned"]++
	}
	w.rev++
	w.say("store %s rev %d: %s attempt %d to %s/%s, term %d %s", id, w.rev, rec.State, rec.Attempt, rec.Worker, rec.Run, rec.Term, rec.Error)
	w.records[id] = append(h, stored{w.rev, rec})
	for _, l := range w.leaders {
		w.tell(l, id, stored{w.rev, rec})
	}
	return w.rev, true
}

// tell delivers a change to a leader's watch, in order.
func (w *world) tell(l *simLeader, id string, s stored) {
	l.ids, l.watch = append(l.ids, id), append(l.watch, s)
	w.after(w.delay(), func() {
		w.at(l, func() {
			// All before it come with it.
			for len(l.watch) > 0 && l.watch[0].rev <= s.rev {
				l.told(w.now, l.ids[0], l.watch[0])
				l.ids, l.watch = l.ids[1:], l.watch[1:]
			}
		})
	})
}

func (l *simLeader) told(now time.Duration, id string, s stored) {
	if s.rec.Term == l.term.Number {
		l.core.Own(id, s.rev)
	} else {
		l.core.Stored(now, id, s.rev, s.rec)
	}
	l.core.Watched(s.rev)
}

// at runs something in a leader, and performs what it wants.
func (w *world) at(l *simLeader, do func()) {
	switch {
	case !l.alive:
		return
	case l.frozen:
		l.waiting = append(l.waiting, do)
		return
	}
	do()
	l.core.Tick(w.now)
	out := l.core.Take()
	w.count["parked"] += len(out.Parked)
	w.count["lost to another"] += len(out.Lost)
	for _, x := range out.Writes {
		w.write(l, x)
	}
	for _, id := range out.Reads {
		w.after(w.delay(), func() { w.read(l, id) })
	}
	for _, m := range out.Messages {
		w.send(m)
	}
	if low := l.core.Low(); low > w.low && w.rnd.IntN(10) == 0 {
		w.low = low
	}
	if at, ok := l.core.Next(); ok && (l.wake <= w.now || at < l.wake) {
		l.wake = max(at, w.now+1)
		w.after(l.wake-w.now, func() { w.at(l, func() {}) })
	}
}

func (w *world) write(l *simLeader, x core.Write) {
	answer := func(rev uint64, ok bool) {
		w.after(w.delay(), func() { w.at(l, func() { l.core.Wrote(w.now, x.ID, x.Expected, rev, ok) }) })
	}
	d := w.delay()
	if w.chance(0.1) {
		w.count["unknown"]++
		answer(0, false) // and it may be applied yet
		if w.chance(0.5) {
			return
		}
		w.after(d+time.Duration(w.rnd.IntN(int(200*ms))), func() { w.apply(x.ID, x.Expected, x.Record) })
		return
	}
	w.after(d, func() {
		rev, ok := w.apply(x.ID, x.Expected, x.Record)
		if !ok {
			w.count["conflict"]++
		}
		answer(rev, ok)
	})
}

func (w *world) read(l *simLeader, id string) {
	h := w.records[id]
	s := h[len(h)-1]
	// A replica that lags may not know of it yet; not for three reads before
	// one that does, since they would be believed.
	if l.missed[id] < 2 && w.chance(0.1) {
		w.count["not found"]++
		l.missed[id]++
		w.at(l, func() { l.core.Missing(w.now, id) })
		return
	}
	if len(h) > 1 && w.chance(0.1) {
		s = h[len(h)-2] // a replica that lags
	}
	if w.chance(0.05) {
		w.at(l, func() { l.core.Unread(w.now, id) })
		return
	}
	w.at(l, func() {
		if s.rev == h[len(h)-1].rev {
			l.missed[id] = 0
		}
		l.core.Stored(w.now, id, s.rev, s.rec)
	})
}

// send carries a message to workers.
func (w *world) send(m core.Message) {
	for _, sw := range w.workers {
		if m.Worker != "" && m.Worker != sw.name {
			continue
		}
		for range w.copies() {
			w.after(w.delay(), func() { w.in(sw, func() { w.hear(sw, m.ToWorker) }) })
		}
	}
}

// copies is how often a message arrives.
func (w *world) copies() int {
	switch {
	case w.chance(0.05):
		return 0
	case w.chance(0.06):
		return 2
	}
	return 1
}

func (w *world) hear(sw *simWorker, m wire.ToWorker) {
	if m.Run != "" && m.Run != sw.run {
		return
	}
	if m.Term.Number >= sw.newest {
		for _, o := range m.Orders {
			sw.orders[order{o.Ref, m.Term.Number}] = true
		}
	}
	sw.newest = max(sw.newest, m.Term.Number)
	sw.core.Heard(m)
}

// in runs something in a worker, and performs what it wants.
func (w *world) in(sw *simWorker, do func()) {
	switch {
	case !sw.alive:
		return
	case sw.frozen:
		sw.wait = append(sw.wait, do)
		return
	}
	do()
	if sw.held > 0 && !w.calm {
		sw.held--
		return // it is held up, and hears the next messages first
	}
	if w.chance(0.02) {
		sw.held = w.rnd.IntN(20)
	}
	starts, stops, say := sw.core.Take()
	for _, s := range starts {
		if slices.Contains(stops, s.Ref) {
			w.fail("%s/%s is to begin %v, and to end it, at once", sw.name, sw.run, s.Ref)
		}
		w.start(sw, s)
	}
	for _, ref := range stops {
		sw.stop[ref] = true
	}
	if say == nil {
		return
	}
	for _, r := range say.Refused {
		if r.Why == wire.Stale {
			w.count["stale refused"]++
		}
	}
	for _, l := range w.leaders {
		for range w.copies() {
			w.after(w.delay(), func() { w.at(l, func() { l.core.Heard(w.now, *say) }) })
		}
	}
}

// start is a worker's log: which attempts it accepts, from which leader.
func (w *world) start(sw *simWorker, s core.Start) {
	w.say("%s/%s starts %v in term %d", sw.name, sw.run, s.Ref, s.Term.Number)
	if !sw.orders[order{s.Ref, s.Term.Number}] {
		w.fail("%s/%s accepts %v of term %d, and has seen %d before", sw.name, sw.run, s.Ref, s.Term.Number, sw.newest)
	}
	who := sw.name + "/" + sw.run
	if other := w.starts[s.Ref]; other != "" && other != who {
		w.fail("%v runs at %s and at %s", s.Ref, other, who)
	}
	w.starts[s.Ref] = who
	if h := w.records[s.ID]; !slices.ContainsFunc(h, func(x stored) bool {
		return x.rec.State == wire.Assigned && x.rec.Attempt == s.Attempt && x.rec.Worker+"/"+x.rec.Run == who
	}) {
		w.fail("%v was given to %s and is not stored", s.Ref, who)
	}
	run := sw.run
	took := time.Duration(w.rnd.IntN(int(100 * ms)))
	if w.chance(0.05) {
		took = 3 * time.Second // longer than it may
	}
	good := !w.chance(0.2)
	w.after(took, func() {
		w.in(sw, func() {
			if sw.run != run {
				return // it has crashed since
			}
			if good && !sw.stop[s.Ref] {
				w.success[s.Ref] = true
			}
			sw.core.Returned(wire.Report{Ref: s.Ref, OK: good && !sw.stop[s.Ref], Error: "no"})
		})
	})
}

func (w *world) startWorker(sw *simWorker) {
	w.seq++
	labels := []string{}
	if sw.name == "w0" || sw.name == "w2" {
		labels = []string{"even"}
	}
	sw.run, sw.alive, sw.frozen, sw.newest, sw.wait, sw.stop = fmt.Sprintf("%08d", w.seq), true, false, 0, nil, map[wire.Ref]bool{}
	sw.orders = map[order]bool{}
	sw.lease = []time.Duration{simLease / 2, simLease, 3 * simLease}[w.rnd.IntN(3)]
	sw.core = core.NewWorker(core.WorkerConfig{Name: sw.name, Run: sw.run, Labels: labels, Capacity: 2, Lease: sw.lease})
	w.in(sw, func() {})
	w.beat(sw, sw.run)
}

func (w *world) beat(sw *simWorker, run string) {
	w.after(sw.lease/3, func() {
		if sw.alive && sw.run == run {
			w.in(sw, sw.core.Show)
			w.beat(sw, run)
		}
	})
}

// elect has another leader begin. The one before may not have heard.
func (w *world) elect() {
	w.count["takeover"]++
	w.term += 1 + uint64(w.rnd.IntN(3))
	l := &simLeader{term: wire.Term{Number: w.term, Token: fmt.Sprint("token", w.term)}, alive: true, missed: map[string]int{}}
	l.core = core.NewLeader(core.Config{Term: l.term, Lease: simLease, Grace: 100 * ms, Reread: 20 * ms})
	w.say("term %d begins", l.term.Number)
	w.leaders = append(w.leaders, l)
	low := w.low
	w.after(w.delay(), func() {
		w.at(l, func() {
			l.ids, l.watch = nil, nil
			for _, id := range ids() {
				if h := w.records[id]; len(h) > 0 && h[len(h)-1].rev >= low {
					if h[len(h)-1].rec.State == wire.Assigned {
						w.count["adopted"]++
					}
					l.core.Stored(w.now, id, h[len(h)-1].rev, h[len(h)-1].rec)
				}
			}
			l.core.Watched(w.rev)
			l.core.Present(w.now)
		})
	})
}

func (w *world) fault() {
	if w.calm {
		return
	}
	latest := w.leaders[len(w.leaders)-1]
	sw := w.workers[w.rnd.IntN(len(w.workers))]
	switch w.rnd.IntN(6) {
	case 0: // the leader crashes
		latest.alive = false
		w.after(time.Duration(w.rnd.IntN(int(500*ms))), w.elect)
	case 1: // it acts on, though another leads
		w.elect()
		w.after(time.Duration(w.rnd.IntN(int(3*time.Second))), func() { latest.alive = false })
	case 2: // it freezes, and acts on when it wakes
		latest.frozen = true
		w.after(time.Duration(w.rnd.IntN(int(time.Second))), w.elect)
		w.after(time.Duration(w.rnd.IntN(int(3*time.Second))), func() { w.thaw(latest) })
		w.after(4*time.Second, func() { latest.alive = false })
	case 3: // a worker crashes
		w.count["worker crash"]++
		w.say("%s/%s crashes", sw.name, sw.run)
		sw.alive = false
		w.after(time.Duration(w.rnd.IntN(int(time.Second))), func() {
			if !sw.alive {
				w.startWorker(sw)
			}
		})
	case 4: // a worker freezes
		sw.frozen = true
		run := sw.run
		w.after(time.Duration(w.rnd.IntN(int(2*time.Second))), func() {
			if sw.run == run {
				w.wake(sw)
			}
		})
	case 5: // a forged message in a worker's name states a newer term
		w.count["lie"]++
		w.at(latest, func() { latest.core.Heard(w.now, wire.FromWorker{Worker: sw.name, Run: sw.run, Seen: noTerm}) })
	}
}

func (w *world) thaw(l *simLeader) {
	waiting := l.waiting
	l.frozen, l.waiting = false, nil
	for _, do := range waiting {
		w.at(l, do)
	}
}

func (w *world) wake(sw *simWorker) {
	waiting := sw.wait
	sw.frozen, sw.wait = false, nil
	for _, do := range waiting {
		w.in(sw, do)
	}
}

// settle ends all faults: everybody lives, and one leads.
func (w *world) settle() {
	w.calm = true
	for _, sw := range w.workers {
		if !sw.alive {
			w.startWorker(sw)
		}
		w.wake(sw)
	}
	for _, l := range w.leaders {
		l.alive = false
	}
	w.elect()
}

// judge looks at the end: nothing is lost.
func (w *world) judge() {
	for i, id := range ids() {
		h := w.records[id]
		if i < simTasks && (len(h) == 0 || h[len(h)-1].rec.State != wire.Done) {
			w.fail("%s is not done: %+v", id, h[max(0, len(h)-1):])
		}
	}
}
