package core

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A Config is what the dispatcher of a term knows from the beginning.
type Config struct {
	Term wire.Term
	// Lease is how long a worker of which an earlier leader wrote has to show
	// itself.
	Lease time.Duration
	// Grace is added to the time of an attempt before the leader gives it up,
	// since the worker counts from a later instant.
	Grace time.Duration
	// Reread is the delay before a record is read whose write has failed. It
	// doubles while that goes on, up to a second.
	Reread time.Duration
}

// A Write is to be made if the task's record is at Expected.
type Write struct {
	ID       string
	Expected uint64
	Record   wire.Record
}

// A Message is one for a worker; all are meant if there is no name.
type Message struct {
	Worker string
	wire.ToWorker
}

// An Output is what is to be done.
type Output struct {
	Writes   []Write
	Reads    []string
	Messages []Message
	// Parked are records that the leader leaves as they are from now on.
	Parked []Parked
	// Lost are workers that obey another leader from now on.
	Lost []Lost
	// Excess are workers that are not admitted, since MaxWorkers are known.
	Excess []string
}

// A Parked is a record that the leader does not act on, with the reason.
type Parked struct{ ID, Why string }

// A Lost is a worker that has seen a term which is not this leader's, and not
// older. Newer reports whether the term's number is larger; otherwise it is the
// same, as after a store has lost its records.
type Lost struct {
	Worker string
	Newer  bool
}

// A Leader is the dispatcher of one term.
type Leader struct {
	cfg     Config
	present bool // the open tasks are known
	early   early

	tasks    map[string]*task
	parked   map[string]uint64 // the revisions of records that are left as they are
	workers  map[string]*worker
	labelled map[string]map[*worker]struct{} // the workers that have a label
	orphans  map[string]map[string]*task     // by the name of a worker that was not heard of
	lines    lines
	timers   timers
	dirty    bool // a task may find a worker now
	moved    bool // keys may belong to other workers now

	// The watch lags behind the leader's writes and reads: its later reports on
	// tasks that have ended do not count.
	watched uint64
	ended   map[string]uint64
	endings []ending // by the revision, nearly

	out    Output
	outbox map[string]*wire.ToWorker
}

type ending struct {
	id  string
	rev uint64
}

// The bounds of what a leader keeps of reports that come before the open tasks
// are known: workers repeat them, and a store may be away for hours.
const (
	MaxEarly      = 4096     // reports
	MaxEarlyBytes = 16 << 20 // of what is of any length in them
)

// MaxWorkers bounds how many workers a leader knows: anybody who may speak as a
// worker may do so under any number of names.
const MaxWorkers = 1 << 14

// early is what was reported before the open tasks were known.
type early struct {
	said           []said
	reports, bytes int
	missed         bool // more was reported than is kept
}

type said struct {
	worker, run string
	reports     []wire.Report
}

// keep takes in reports, up to the bounds.
func (e *early) keep(s said) {
	for i, r := range s.reports {
		size := len(s.run) + len(r.ID) + len(r.Result) + len(r.Error)
		if e.reports == MaxEarly || e.bytes+size > MaxEarlyBytes {
			e.missed = true
			s.reports = slices.Clone(s.reports[:i]) // without the rest
			break
		}
		e.reports++
		e.bytes += size
	}
	if len(s.reports) > 0 {
		e.said = append(e.said, s)
	}
}

// A task is one that is open.
type task struct {
	id  string
	rev uint64
	rec wire.Record

	// next is being written, on expected. unsure: a write has failed, and the
	// stored record has to be read.
	writing  bool
	expected uint64
	next     *wire.Record // nil unless one is written, or was of unknown outcome
	unsure   bool
	missing  int // how often the read found nothing
	failed   int // how often in a row a write or a read has failed

	holder *worker // whose room it takes
	sent   bool    // the order was sent, or the worker has shown that it has it
	sentAt time.Duration
	report *wire.Report // how the attempt ended, to be recorded
	lost   string       // why the attempt is given up
	spared bool         // that does not count as a failure

	ticket uint64 // of its place in a line, 0 outside
	timer  *timer
	reread *timer
}

// A worker is one that was heard of in its lease.
type worker struct {
	name, run string
	known     bool // it has reported its capacity
	foreign   bool // it obeys another leader, by its latest message
	presence  wire.Presence
	heard     time.Duration
	tasks     map[string]*task
	timer     *timer
}

func (w *worker) takes() bool { return w.known && !w.foreign && !w.presence.Draining }

func (w *worker) room() int { return w.presence.Capacity - len(w.tasks) }

// NewLeader returns a dispatcher that knows of nothing. It begins with a call
// to all workers.
func NewLeader(cfg Config) *Leader {
	cfg.Lease, cfg.Grace = min(cfg.Lease, MaxTimeout), min(cfg.Grace, MaxTimeout)
	l := &Leader{
		cfg: cfg, tasks: map[string]*task{}, parked: map[string]uint64{}, workers: map[string]*worker{},
		labelled: map[string]map[*worker]struct{}{}, orphans: map[string]map[string]*task{},
		lines: lines{of: map[class]*line{}}, outbox: map[string]*wire.ToWorker{}, ended: map[string]uint64{},
	}
	l.to("", "").Call = true
	return l
}

// Take returns what is to be done since the last call.
func (l *Leader) Take() Output {
	if l.present && l.dirty {
		l.dispatch()
	}
	out := l.out
	l.out = Output{}
	for _, name := range slices.Sorted(maps.Keys(l.outbox)) {
		out.Messages = append(out.Messages, Message{Worker: name, ToWorker: *l.outbox[name]})
	}
	clear(l.outbox)
	return out
}

// Next returns when something is due, and whether anything is.
func (l *Leader) Next() (at time.Duration, ok bool) { return l.timers.next() }

// Tick does what is due.
func (l *Leader) Tick(now time.Duration) {
	for t := l.timers.due(now); t != nil; t = l.timers.due(now) {
		t.do(now)
	}
}

// Present is called when all open tasks have been reported.
func (l *Leader) Present(now time.Duration) {
	if l.present {
		return
	}
	l.present, l.dirty = true, true
	for _, s := range l.early.said {
		l.reports(now, l.workers[s.worker], s)
	}
	if l.early.missed {
		l.to("", "").Call = true // workers repeat what they have reported
	}
	l.early = early{}
}

// Heard handles a worker's message.
func (l *Leader) Heard(now time.Duration, m wire.FromWorker) {
	w := l.admit(now, m)
	switch {
	case w == nil:
		return
	case m.Leaving:
		l.gone(now, w, "the worker has left")
		return
	}
	l.loyal(now, w, m)
	if w.foreign {
		return
	}
	for _, r := range m.Refused {
		l.refused(now, w, r)
	}
	if s := (said{m.Worker, m.Run, m.Reports}); len(m.Reports) > 0 {
		if l.present {
			l.reports(now, w, s)
		} else {
			l.early.keep(s)
		}
	}
	if m.Presence != nil {
		l.presence(now, w, *m.Presence)
	}
}

// another reports whether a worker obeys another leader, according to its
// message. It refuses this leader's orders then.
func (l *Leader) another(m *wire.FromWorker) bool {
	return m.Seen > l.cfg.Term.Number || m.Seen == l.cfg.Term.Number && m.SeenToken != "" && m.SeenToken != l.cfg.Term.Token
}

// loyal handles which leader a worker obeys. A worker that obeys another leader
// is given nothing while it reports so. Nothing else follows: anybody who may
// speak as a worker may state any number, and only the election knows which
// terms there are. If the stated term is newer, the worker keeps its attempts
// until their deadlines, since its leader may be this leader's successor. If
// the term has this leader's number, its tasks go to others: ordered here, they
// would use up their attempts.
func (l *Leader) loyal(now time.Duration, w *worker, m wire.FromWorker) {
	foreign := l.another(&m)
	if foreign == w.foreign {
		return
	}
	w.foreign = foreign
	l.rehash()
	if !foreign {
		return
	}
	newer := m.Seen > l.cfg.Term.Number
	l.out.Lost = append(l.out.Lost, Lost{w.name, newer})
	if newer {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		if t := w.tasks[id]; t.rec.State == wire.Assigned {
			l.giveUp(now, t, "the worker obeys another leader of this term's number")
		}
	}
}

// admit returns the worker that a message is of, nil if it is of a run that
// another has replaced.
func (l *Leader) admit(now time.Duration, m wire.FromWorker) *worker {
	w := l.workers[m.Worker]
	if w != nil && w.run != m.Run {
		if m.Run < w.run && now < w.heard+w.lease(l.cfg) {
			return nil
		}
		l.gone(now, w, "the worker was restarted")
		w = nil
	}
	if w == nil {
		if m.Leaving {
			return nil
		}
		if len(l.workers) >= MaxWorkers {
			l.out.Excess = append(l.out.Excess, m.Worker)
			return nil
		}
		w = &worker{name: m.Worker, run: m.Run, tasks: map[string]*task{}}
		l.workers[w.name] = w
		l.adopt(now, w)
		if m.Presence == nil && !l.another(&m) {
			l.to(w.name, w.run).Call = true
		}
	}
	w.heard = now
	if w.timer == nil {
		l.watch(w)
	}
	return w
}

func (w *worker) lease(cfg Config) time.Duration {
	if w.presence.Lease > 0 {
		return min(w.presence.Lease, MaxTimeout)
	}
	return cfg.Lease
}

// watch notices the end of a worker's lease. It is prolonged when it is due,
// and not with each message.
func (l *Leader) watch(w *worker) {
	l.timers.arm(&w.timer, w.heard+w.lease(l.cfg), func(now time.Duration) {
		if now < w.heard+w.lease(l.cfg) {
			l.watch(w)
			return
		}
		l.gone(now, w, "the worker is silent")
	})
}

// adopt gives a worker the tasks that the store assigns to it.
func (l *Leader) adopt(now time.Duration, w *worker) {
	orphans := l.orphans[w.name]
	delete(l.orphans, w.name)
	for _, id := range slices.Sorted(maps.Keys(orphans)) {
		l.bind(now, orphans[id])
	}
}

// gone forgets a worker, whose attempts are lost.
func (l *Leader) gone(now time.Duration, w *worker, why string) {
	l.timers.stop(w.timer)
	delete(l.workers, w.name)
	l.label(w, nil)
	l.rehash()
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		t := w.tasks[id]
		t.holder = nil
		if t.rec.State == wire.Assigned {
			l.giveUp(now, t, why)
		}
	}
	w.tasks = nil
}

// presence handles a worker's capacity, and compares its attempts with the
// store's assignments.
func (l *Leader) presence(now time.Duration, w *worker, p wire.Presence) {
	moved := !w.known || w.presence.Draining != p.Draining || !slices.Equal(w.presence.Labels, p.Labels)
	if moved {
		l.label(w, p.Labels)
	}
	w.known, w.presence = true, p
	l.dirty = true
	if moved {
		l.rehash()
		l.watch(w)
	}
	held := make(map[wire.Ref]bool, len(p.Held))
	for _, ref := range p.Held {
		held[ref] = true
		if l.present && !l.owns(w, ref) {
			l.revoke(w.name, w.run, ref)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		t := w.tasks[id]
		switch {
		case t.rec.State != wire.Assigned || t.report != nil || t.lost != "":
		case held[t.ref()]:
			t.sent = true
		case !t.sent || now >= t.sentAt+w.lease(l.cfg)/4:
			l.order(now, t)
		}
	}
}

// label replaces the labels by which a worker is found.
func (l *Leader) label(w *worker, labels []string) {
	for _, label := range w.presence.Labels {
		delete(l.labelled[label], w)
		if len(l.labelled[label]) == 0 {
			delete(l.labelled, label)
		}
	}
	for _, label := range labels {
		if l.labelled[label] == nil {
			l.labelled[label] = map[*worker]struct{}{}
		}
		l.labelled[label][w] = struct{}{}
	}
}

// having returns the workers that have a label, or all workers without a label.
func (l *Leader) having(label string) iter.Seq[*worker] {
	if label == "" {
		return maps.Values(l.workers)
	}
	return maps.Keys(l.labelled[label])
}

// owns reports whether a worker may have an attempt, as far as is known.
func (l *Leader) owns(w *worker, ref wire.Ref) bool {
	t := l.tasks[ref.ID]
	switch {
	case t == nil:
		return false
	case t.writing || t.unsure || t.rec.Attempt < ref.Attempt:
		return true // it will show
	default:
		return t.has(w, ref)
	}
}

func (t *task) ref() wire.Ref { return wire.Ref{ID: t.id, Attempt: t.rec.Attempt} }

// has reports whether an attempt is the present one, and the worker's.
func (t *task) has(w *worker, ref wire.Ref) bool {
	return t.rec.State == wire.Assigned && t.rec.Attempt == ref.Attempt && t.rec.Worker == w.name && t.rec.Run == w.run
}

// refused takes in that a worker does not take an attempt.
func (l *Leader) refused(now time.Duration, w *worker, r wire.Refusal) {
	t := l.tasks[r.ID]
	if t == nil || !t.has(w, r.Ref) || t.report != nil {
		return
	}
	if r.Why == wire.Stale {
		return // the order was an earlier leader's; its presence brings it ours
	}
	switch r.Why {
	case wire.Draining:
		if !w.presence.Draining {
			w.presence.Draining = true
			l.rehash()
		}
	case wire.Full:
		w.presence.Capacity = min(w.presence.Capacity, len(w.tasks)-1) // until its presence arrives
	case wire.Older, wire.Stale:
	}
	t.spared = true
	l.giveUp(now, t, "the worker refused it: "+string(r.Why))
}

// reports takes in how attempts have ended.
func (l *Leader) reports(now time.Duration, w *worker, s said) {
	for _, r := range s.reports {
		t := l.tasks[r.ID]
		switch {
		case t != nil && (t.rec.Attempt < r.Attempt || t.unsure && t.next.Attempt == r.Attempt):
			// The leader's knowledge of the task is old. The worker reports
			// again.
		case t == nil || w == nil || w.run != s.run || !t.has(w, r.Ref):
			m := l.to(s.worker, s.run)
			m.Settled = append(m.Settled, r.Ref)
		case t.report == nil:
			t.report, t.lost = &r, ""
			l.decide(now, t)
		}
	}
}

// Stored handles a stored record, from a watch or a read. A record that is
// older than the known one is ignored. A record of a newer term is parked: this
// leader may be deposed without knowing it, and then the record is its
// successor's.
func (l *Leader) Stored(now time.Duration, id string, rev uint64, rec wire.Record) {
	if rev <= l.parked[id] {
		return
	}
	if rec.Term > l.cfg.Term.Number && !rec.State.Finished() {
		l.Invalid(now, id, rev, fmt.Sprintf("its term %d is newer than this one, which is %d", rec.Term, l.cfg.Term.Number))
		return
	}
	delete(l.parked, id)
	t := l.tasks[id]
	switch {
	case t == nil:
		if !rec.State.Finished() && rev > l.ended[id] {
			t = &task{id: id, rev: rev, rec: rec}
			l.tasks[id] = t
			l.begin(now, t)
		}
	case rev > t.rev && t.pending() && t.isNext(l.cfg.Term.Number, rec):
		l.wrote(now, t, rev) // the answer of our own write is late, or lost
	case rev > t.rev:
		l.replaced(now, t, rev, rec)
	case rev == t.rev && t.unsure && !t.writing:
		t.unsure, t.missing = false, 0 // the write has not been applied
		l.decide(now, t)
	}
}

// Invalid takes in a record that no leader may act on, with the reason. The
// record is left as it is. An attempt of the task is revoked, as if the record
// had been removed by hand.
func (l *Leader) Invalid(now time.Duration, id string, rev uint64, why string) {
	t := l.tasks[id]
	if rev <= max(l.parked[id], l.ended[id]) || t == nil && rev <= l.watched || t != nil && rev <= t.rev {
		return // late news
	}
	if t != nil {
		l.Deleted(now, id, rev)
	}
	l.parked[id] = rev
	l.out.Parked = append(l.out.Parked, Parked{id, why})
}

// Own handles the revision of a record that states the leader's own term. The
// watch omits the rest, since the leader knows what it has written. A submitter
// may state the same term, too, so an unknown revision is read.
func (l *Leader) Own(id string, rev uint64) {
	t := l.tasks[id]
	if t == nil && rev > max(l.watched, l.ended[id], l.parked[id]) || t != nil && rev > t.rev && !t.pending() {
		l.out.Reads = append(l.out.Reads, id)
	}
}

// Watched records that the watch has reported all changes up to a revision, the
// leader's own writes left out.
func (l *Leader) Watched(rev uint64) {
	l.watched = max(l.watched, rev)
	for len(l.endings) > 0 && l.endings[0].rev <= l.watched {
		if e := l.endings[0]; l.ended[e.id] == e.rev {
			delete(l.ended, e.id)
		}
		l.endings = l.endings[1:]
	}
}

// end forgets a task that is finished.
func (l *Leader) end(t *task) {
	delete(l.tasks, t.id)
	if t.rev > l.watched {
		l.ended[t.id] = t.rev
		l.endings = append(l.endings, ending{t.id, t.rev})
	}
}

// pending reports whether a write of the leader may be in flight.
func (t *task) pending() bool { return t.writing || t.unsure }

// isNext reports whether a record is the one that is being written. Only this
// leader writes with its term.
func (t *task) isNext(term uint64, rec wire.Record) bool {
	n := t.next
	return rec.Term == term && rec.State == n.State && rec.Attempt == n.Attempt && rec.Failures == n.Failures &&
		rec.Worker == n.Worker && rec.Run == n.Run
}

// Missing handles a read that found no record. A replica that lags may give the
// same answer: the third time counts.
func (l *Leader) Missing(now time.Duration, id string) {
	t := l.tasks[id]
	if t == nil || !t.unsure || t.writing {
		return
	}
	t.missing++
	if t.missing < 3 {
		l.readLater(now, t)
		return
	}
	l.Deleted(now, id, t.rev+1)
}

// Unread takes in that a record could not be read.
func (l *Leader) Unread(now time.Duration, id string) {
	if t := l.tasks[id]; t != nil && t.unsure {
		t.failed++
		l.readLater(now, t)
	}
}

// Deleted takes in that a record was removed by hand.
func (l *Leader) Deleted(now time.Duration, id string, rev uint64) {
	if rev > l.parked[id] {
		delete(l.parked, id)
	}
	if t := l.tasks[id]; t != nil && rev > t.rev {
		l.replaced(now, t, rev, wire.Record{State: wire.Failed, Attempt: t.rec.Attempt})
	}
}

// Wrote takes in the outcome of a write. With known it was applied, at rev, or
// it was not; otherwise nobody knows.
func (l *Leader) Wrote(now time.Duration, id string, expected, rev uint64, ok bool) {
	t := l.tasks[id]
	if t == nil || !t.writing || t.expected != expected {
		return // what became of it was seen already
	}
	if ok && rev > t.rev {
		l.wrote(now, t, rev)
		return
	}
	t.writing = false
	if t.rev != expected {
		l.decide(now, t) // the stored record is known
		return
	}
	t.unsure = true
	t.failed++
	l.readLater(now, t)
}

// slowest is how often a record is read at least whose writes and reads fail. A
// store in trouble has as many of them as there are workers.
const slowest = time.Second

// readLater reads a record after a delay, which doubles with each failure.
func (l *Leader) readLater(now time.Duration, t *task) {
	delay := min(l.cfg.Reread<<min(max(t.failed-1, 0), 10), max(l.cfg.Reread, slowest))
	l.timers.arm(&t.reread, now+delay, func(time.Duration) {
		if t.unsure {
			l.out.Reads = append(l.out.Reads, t.id)
		}
	})
}

// Low returns a lower bound for the revisions of all open and parked tasks, now
// and later: records change by growing revisions, so a leader that begins to
// read there misses none. It is 0 while the open tasks are not known.
func (l *Leader) Low() uint64 {
	if !l.present {
		return 0
	}
	low := l.watched + 1 // what came later may not be known yet
	for _, t := range l.tasks {
		low = min(low, t.rev)
	}
	for _, rev := range l.parked {
		low = min(low, rev)
	}
	return low
}

// A Count is how many tasks and workers there are.
type Count struct{ Queued, Assigned, Parked, Workers int }

// Count returns how many there are.
func (l *Leader) Count() (c Count) {
	for _, t := range l.tasks {
		if t.rec.State == wire.Assigned {
			c.Assigned++
		}
	}
	c.Queued, c.Parked, c.Workers = len(l.tasks)-c.Assigned, len(l.parked), len(l.workers)
	return c
}

// Knows reports whether a worker was heard of in its lease.
func (l *Leader) Knows(worker string) bool { return l.workers[worker] != nil }

// to returns the message that goes to a run of a worker.
func (l *Leader) to(name, run string) *wire.ToWorker {
	m := l.outbox[name]
	if m == nil || m.Run != run {
		m = &wire.ToWorker{Term: l.cfg.Term, Run: run}
		l.outbox[name] = m
	}
	return m
}

// revoke ends an attempt at a worker. Its handler may go on for a while: the
// room is not given away before the worker shows itself again, which it does at
// once.
func (l *Leader) revoke(name, run string, ref wire.Ref) {
	m := l.to(name, run)
	m.Revoked = append(m.Revoked, ref)
	if w := l.workers[name]; w != nil && w.run == run {
		w.presence.Capacity--
	}
}

// dispatch gives tasks to workers that have room, the oldest first. Room only
// shrinks meanwhile, so a class without room waits for the next dispatch.
func (l *Leader) dispatch() {
	if l.moved {
		l.moved = false
		for _, t := range l.lines.takeKeyed() {
			l.wait(t)
		}
	}
	l.dirty = false
	served := func(c class) bool { return l.pick(c) != nil }
	for waiting := l.lines.waiting(served); len(waiting) > 0; {
		line := waiting[0]
		if w := l.pick(line.class); w != nil {
			l.assign(line.head(), w)
			if line.head() != nil {
				heap.Fix(&waiting, 0)
				continue
			}
		}
		heap.Pop(&waiting)
	}
}

// pick returns who gets a task of a class, nil if nobody has room.
func (l *Leader) pick(c class) (best *worker) {
	if c.kind == 'w' || c.kind == 'k' {
		if w := l.workers[c.name]; w != nil && w.takes() && w.room() > 0 {
			return w
		}
		return nil
	}
	for w := range l.having(c.name) {
		if w.takes() && w.room() > 0 && w.before(best) {
			best = w
		}
	}
	return best
}

// before reports whether w is to be preferred: the one with more of its room
// free, and of equals the first by name.
func (w *worker) before(o *worker) bool {
	if o == nil {
		return true
	}
	a, b := w.room()*o.presence.Capacity, o.room()*w.presence.Capacity
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(w.name, o.name)) < 0
}

// wait puts a task into its line.
func (l *Leader) wait(t *task) {
	to, c := t.rec.To, class{'a', ""}
	switch {
	case to.Key != "":
		c = class{'k', l.keeper(to)}
	case to.Worker != "":
		c = class{'w', to.Worker}
	case to.Label != "":
		c = class{'l', to.Label}
	}
	l.lines.join(t, c)
	l.dirty = true
}

// keeper returns which worker has a key.
func (l *Leader) keeper(to wire.Target) string {
	var names []string
	for w := range l.having(to.Label) {
		if w.takes() && (to.Worker == "" || to.Worker == w.name) {
			names = append(names, w.name)
		}
	}
	return Rendezvous(to.Key, names)
}

// rehash has the tasks that wait by a key placed again, since the workers have
// changed. The next dispatch does so once, however many workers change before.
func (l *Leader) rehash() { l.moved, l.dirty = true, true }
