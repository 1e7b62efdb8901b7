package ballot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

// This file is the world that the explorer visits: members, processes that call
// CompareAndSwap one call after another, and requests that are applied at any
// time or never.
//
// What is left out, and why that loses little:
//
//   - A request is applied and answered in one step. An answer that is late is
//     one whose request was applied late, unless the order of answers differs
//     from the order in which members applied the requests: that is a write
//     given up on its way (kLate) which then arrives. So is a lost answer; and
//     a lost write is one that never arrives.
//   - A read, and a write that will be refused since its revision is gone, are
//     answered at once (unless -explore.deep): a process that learns something
//     late behaves as one whose next write is refused, and which then reads.
//   - A request given up that expects a revision which is gone is dropped,
//     since revisions do not come again, except 0.
//   - Of a process without further calls only the writes under way are kept.
//   - Random parts of ballots are the number of the process. Counters decide in
//     all other respects.
//   - A clock is above all versions given before (Q11 assumes it).

const (
	maxProcs = 3
	maxCalls = 4 // of a process
	testLeap = 16
	rootID   = 99
	clockGap = 10
	unlikely = 1 << 60 // a version that no register has
	anyID    = 255     // of a state that a process expects without having seen it
)

type kind uint8

const (
	kBegin kind = iota
	kRetry
	kApply
	kRead
	kLateApply
	kWatch
	kExhausted // the call has had all its attempts

	// Faults, of which a world has a limited number.
	kLate
	kRefused
	kDenied
	kFailRead
	kCancel
	kWipe
	kDelete
	kRollback
	kinds
)

var kindNames = [kinds]string{
	"begins a call", "tries again", "write arrives", "read", "late write arrives", "watch delivers", "gives up after its last attempt",
	"write given up on its way", "write refused", "write refused permanently", "read fails", "call cancelled",
	"member wiped", "key deleted by hand", "member goes back",
}

type kindSet uint32

func setOf(ks ...kind) (s kindSet) {
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

func (s kindSet) has(k kind) bool { return s&(1<<k) != 0 }

type register struct {
	Acceptor
	rev uint64
}

// A straggler is a write whose sender has given up on it.
type straggler struct {
	member  uint8
	used    bool
	rev     uint64
	content Acceptor
}

// A process calls CompareAndSwap, or is a reader.
type process struct {
	view   *box  // is not changed once it is shared
	calls  uint8 // begun
	tries  uint8 // of the call under way
	expect [maxCalls]entry
}

// A box is a view with what distinguishes it from others: by member, so that
// worlds which differ in the order of members are one, and in the rest.
type box struct {
	View
	id     fingerprint
	member [MaxMembers]fingerprint
	rest   fingerprint
}

// A stepped is what a step of a process led to.
type stepped struct {
	view    *box
	actions []Action
}

// An entry is a state that somebody learned is chosen.
type entry struct {
	version uint64
	id      uint8
}

type world struct {
	reg    [MaxMembers]register
	before [MaxMembers]register // is what a rollback restores
	proc   [maxProcs]process
	late   [2]straggler
	chain  [8]entry // by version
	links  uint8    // entries in chain
	dead   uint16   // calls that were refused, by their IDs
	faults uint8    // so many happened
	wipes  uint8
	lost   Mask   // members that were wiped, deleted or rolled back and not healed
	ruin   uint64 // the largest version when more than a minority was lost at a time
	top    uint64 // the largest version that was ever accepted
	bad    string
}

// A config is a family of worlds.
type config struct {
	name    string
	members int
	procs   int
	calls   [maxProcs]uint8 // of each process
	tries   [maxProcs]uint8 // attempts of each call of each process
	reader  bool            // the last process reads
	empty   bool            // no key yet
	faults  uint8
	kinds   kindSet // faults that may happen
	wipes   uint8   // wipes, deletions and rollbacks, besides the faults
	release int     // the process whose first call writes a tombstone, 1 for the first
	ahead   uint64  // by so many counters the last process begins with a higher ballot, after attempts of which no member heard
	begins  []next  // happened before the first world, without their acts
	guess   int     // the process that expects the version after the newest that it saw, 1 for the first
	looks   Mask    // the processes that look at all members before each call
	apart   bool    // the second process has other members: 2, 3, 4
	blind   bool    // a fresh process cannot see what was lost: it is not judged by one
	sample  int     // random walks instead of all worlds
	most    int     // worlds that are visited, 0 for all

	mutant mutant
}

type sim struct {
	config
	groups  [maxProcs]*Group
	judged  map[fingerprint]struct{}
	seeds   [2]maphash.Seed
	boxes   map[fingerprint]*box
	steps   map[fingerprint]stepped
	buf     []byte
	viewBuf []byte
	out     []next
	eager   bool
	// observe is called after each step of a process.
	observe func(p int, before *View, ev *Event, actions []Action, after *View)
	count   [kinds]int
}

func newSim(c config) *sim {
	if c.members == 0 {
		c.members = 3
	}
	s := &sim{
		config: c, judged: map[fingerprint]struct{}{}, eager: !*exploreDeep,
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		boxes: map[fingerprint]*box{}, steps: map[fingerprint]stepped{},
	}
	for p := range s.groups {
		s.groups[p] = NewGroup(1, c.members)
		if c.apart {
			s.groups[p] = NewGroup(uint64(1+p), 3)
		}
		s.groups[p].Leap, s.groups[p].Chain = testLeap, 1
		if c.mutant.group != nil {
			c.mutant.group(s.groups[p])
		}
	}
	return s
}

// at returns the register that process p takes for member i.
func (s *sim) at(p, i int) int {
	if s.apart && p == 1 {
		return i + 2
	}
	return i
}

func (s *sim) root() (w world) {
	for i := range s.members {
		if s.empty || s.apart && i > 2 {
			continue
		}
		w.reg[i] = register{Acceptor{
			Set: 1, Promised: Ballot{1, 9}, Ballot: Ballot{1, 9}, Value: Value{ID: ID{rootID}, Version: 1},
		}, 1}
	}
	w.before = w.reg
	if !s.empty {
		w.chain[0], w.links, w.top = entry{1, rootID}, 1, 1
	}
	for p := range s.procs {
		w.proc[p].view = s.boxed(&View{}, s.groups[p].Members)
		if s.apart && p == 1 {
			continue // it has to look
		}
		for i := range s.members {
			s.step(&w, p, Event{Kind: Seen, Member: i, Rev: w.reg[i].rev, Seen: w.reg[i].Acceptor})
		}
	}
	if s.ahead > 0 {
		x := &w.proc[s.procs-1]
		v := x.view.View
		v.Counter += s.ahead
		x.view = s.boxed(&v, s.groups[s.procs-1].Members)
	}
	s.canon(&w)
	for _, want := range s.begins {
		all := s.successors(&w)
		k := slices.IndexFunc(all, func(n next) bool { return n.kind == want.kind && n.who == want.who && n.member == want.member })
		w = s.perform(&w, &all[k])
	}
	return w
}

// A next is a transition of a world.
type next struct {
	kind   kind
	who    uint8
	member uint8
	act    func(*world)
}

// perform returns the world after a transition of w.
func (s *sim) perform(w *world, n *next) world {
	v := *w
	switch {
	case n.kind >= kWipe:
		v.wipes++
	case n.kind >= kLate:
		v.faults++
	}
	n.act(&v)
	s.canon(&v)
	return v
}

// successors returns the transitions of w. The next call overwrites them.
func (s *sim) successors(w *world) []next {
	s.out = s.out[:0]
	if s.eager && s.atOnce(w) {
		return s.out
	}
	for p := range s.procs {
		if s.reader && p == s.procs-1 {
			s.reads(w, p)
			continue
		}
		s.calling(w, p)
		for i := range s.groups[p].Members {
			s.answers(w, p, i)
		}
	}
	for k := range w.late {
		if l := &w.late[k]; l.used && l.rev == w.reg[l.member].rev {
			s.add(kLateApply, 0, int(l.member), func(w *world) {
				s.apply(w, int(l.member), l.rev, &l.content)
				w.late[k] = straggler{}
			})
		}
	}
	if w.wipes < s.wipes {
		for i := range s.members {
			s.losses(w, i)
		}
	}
	return s.out
}

// atOnce adds one answer that is given at once, if there is any.
func (s *sim) atOnce(w *world) bool {
	for p := range s.procs {
		for i := range s.groups[p].Members {
			m := &w.proc[p].view.Members[i]
			rev := w.reg[s.at(p, i)].rev
			if m.Doing == Looking && !s.kinds.has(kFailRead) || m.Doing > Looking && m.Rev != rev && m.Rev != 0 {
				s.answers(w, p, i)
				s.out = s.out[:1]
				return true
			}
		}
	}
	return false
}

func (s *sim) add(k kind, who, member int, act func(*world)) {
	s.out = append(s.out, next{k, uint8(who), uint8(member), act})
}

func (s *sim) reads(w *world, p int) {
	for i := range s.members {
		m := &w.proc[p].view.Members[i]
		if m.Rev != w.reg[i].rev || m.Acceptor != w.reg[i].Acceptor {
			s.add(kWatch, p, i, func(w *world) {
				s.step(w, p, Event{Kind: Seen, Member: i, Rev: w.reg[i].rev, Seen: w.reg[i].Acceptor})
			})
		}
	}
}

func (s *sim) may(w *world, k kind) bool { return w.faults < s.faults && s.kinds.has(k) }

func (s *sim) calling(w *world, p int) {
	cancel := func(w *world) { s.step(w, p, Event{Kind: Cancel}) }
	switch c := &w.proc[p].view.Call; {
	case c.Stage == Ended && w.proc[p].calls < s.calls[p]:
		s.add(kBegin, p, 0, func(w *world) {
			for k := range 2 * s.members { // twice, since one older revision may be a stale read
				if i := k / 2; s.looks.Has(p) {
					s.step(w, p, Event{Kind: Seen, Member: i, Rev: w.reg[i].rev, Seen: w.reg[i].Acceptor})
				}
			}
			s.begin(w, p)
		})
	case c.Stage == Ended:
	case c.Stage == Waiting && w.proc[p].tries < s.tries[p]:
		s.add(kRetry, p, 0, func(w *world) { w.proc[p].tries++; s.step(w, p, Event{Kind: Retry}) })
	case c.Stage == Waiting:
		s.add(kExhausted, p, 0, cancel)
	case s.may(w, kCancel):
		s.add(kCancel, p, 0, cancel)
	}
}

// answers adds what may become of the request of process p to member i.
func (s *sim) answers(w *world, p, i int) {
	m, r := &w.proc[p].view.Members[i], s.at(p, i)
	if m.Doing == Looking {
		s.add(kRead, p, i, func(w *world) {
			s.step(w, p, Event{Kind: Looked, Member: i, Rev: w.reg[r].rev, Seen: w.reg[r].Acceptor})
		})
		if s.may(w, kFailRead) {
			s.add(kFailRead, p, i, func(w *world) { s.step(w, p, Event{Kind: Looked, Member: i, Outcome: store.Transient}) })
		}
	}
	if m.Doing <= Looking {
		return
	}
	fits := m.Rev == w.reg[r].rev
	answer := func(o store.Outcome) func(w *world) {
		return func(w *world) { s.step(w, p, Event{Kind: Wrote, Member: i, Outcome: o, Rev: w.reg[r].rev}) }
	}
	s.add(kApply, p, i, func(w *world) { answer(s.apply(w, r, m.Rev, &m.Sent))(w) })
	if s.may(w, kLate) && (fits || m.Rev == 0) && !w.late[1].used {
		s.add(kLate, p, i, func(w *world) {
			w.late[1] = straggler{uint8(r), true, m.Rev, m.Sent}
			answer(store.Unknown)(w)
		})
	}
	if s.may(w, kRefused) {
		s.add(kRefused, p, i, answer(store.Transient))
	}
	if s.may(w, kDenied) {
		s.add(kDenied, p, i, answer(store.Permanent))
	}
}

// losses adds what may become of the memory of member i. One member forgets at
// a time, except where an operator deletes.
func (s *sim) losses(w *world, i int) {
	r := &w.reg[i]
	alone := w.lost == 0
	if s.kinds.has(kWipe) && alone && r.Acceptor != (Acceptor{}) {
		s.add(kWipe, 0, i, func(w *world) { s.lose(w, i, register{}) })
	}
	if s.kinds.has(kDelete) && (!r.Marked || r.Accepted()) {
		s.add(kDelete, 0, i, func(w *world) { s.lose(w, i, register{Acceptor{Marked: true}, r.rev + 1}) })
	}
	if b := &w.before[i]; s.kinds.has(kRollback) && alone && b.Acceptor != r.Acceptor && b.Accepted() {
		s.add(kRollback, 0, i, func(w *world) { s.lose(w, i, register{b.Acceptor, r.rev + 1}) })
	}
}

func (s *sim) lose(w *world, i int, r register) {
	w.before[i], w.reg[i] = w.reg[i], r
	w.lost |= 1 << i
	if w.lost.Count() > s.members/2 {
		w.ruin = w.top
	}
}

// apply has member i take a write.
func (s *sim) apply(w *world, i int, expected uint64, content *Acceptor) store.Outcome {
	r := &w.reg[i]
	if r.rev != expected {
		return store.Conflict
	}
	if s.kinds.has(kRollback) {
		w.before[i] = *r
	}
	*r = register{*content, r.rev + 1}
	if r.rev == 1 {
		r.rev = 1 << 20 // above all that were given before the member was wiped
	}
	if content.Accepted() {
		w.lost &^= 1 << i
	}
	w.top = max(w.top, content.Version)
	return store.OK
}

func callID(p int, k uint8) uint8 { return uint8(p*maxCalls) + k + 1 }

// begin begins the next call of process p, over what it last saw chosen.
func (s *sim) begin(w *world, p int) {
	x := &w.proc[p]
	at := entry{x.view.Shown.Version, x.view.Shown.ID[0]}
	if s.guess == p+1 {
		at = entry{at.version + 1, anyID}
	}
	x.expect[x.calls] = at
	own := Value{ID: ID{callID(p, x.calls)}}
	x.calls++
	own.Tombstone = s.release == p+1 && x.calls == 1
	x.tries = 1
	s.step(w, p, Event{Kind: Begin, Expected: at.version, Own: own})
}

// step has process p take in an event, and judges how its call ends.
func (s *sim) step(w *world, p int, ev Event) {
	x := &w.proc[p]
	before := x.view
	ev.Random, ev.Clock = uint64(p+1), (w.top/clockGap+1)*clockGap
	actions := s.take(x, p, &ev)
	if v := &x.view.Shown; *v != before.Shown {
		s.confirm(w, entry{v.Version, v.ID[0]})
		for k := 0; k < MaxChain && v.Ancestors[k] != 0; k++ {
			s.confirm(w, entry{v.Version - 1 - uint64(k), byte(v.Ancestors[k] >> 56)})
		}
		if v.Version < before.Shown.Version {
			w.bad = "order: a reader sees an older version"
		}
	}
	for k := range actions {
		if a := &actions[k]; a.Kind == Done {
			s.ended(w, p, a)
		}
	}
}

// take computes a step of process p, or recalls it.
func (s *sim) take(x *process, p int, ev *Event) []Action {
	b := binary.LittleEndian.AppendUint64(append(s.buf[:0], byte(ev.Kind), byte(p), byte(ev.Member), byte(ev.Outcome)), x.view.id[0])
	b = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, ev.Rev), ev.Expected), ev.Clock)
	b = appendValue(appendAcceptor(b, &ev.Seen), &ev.Own)
	s.buf = b
	key := s.of(b)
	known, ok := s.steps[key]
	if !ok || s.observe != nil {
		before := x.view
		view, actions := s.mutant.doStep(s.groups[p], before.View, *ev)
		known = stepped{s.boxed(&view, s.groups[p].Members), actions}
		s.steps[key] = known
		if s.observe != nil {
			s.observe(p, &before.View, ev, actions, &view)
		}
	}
	x.view = known.view
	return known.actions
}

// ended judges how a call ended.
func (s *sim) ended(w *world, p int, a *Action) {
	x := &w.proc[p]
	id, at := callID(p, x.calls-1), x.expect[max(x.calls, 1)-1]
	if a.Outcome == store.OK {
		s.confirm(w, entry{a.Version, id})
		return
	}
	if a.Outcome == store.Unknown {
		return
	}
	if a.Outcome == store.Conflict && at.id != anyID && x.view.Shown.Version <= at.version && w.ruin == 0 {
		w.bad = fmt.Sprintf("conflict: a read shows version %d, which was expected", x.view.Shown.Version)
	}
	w.dead |= 1 << id
	for _, e := range w.chain[:w.links] {
		if e.id == id {
			w.bad = fmt.Sprintf("honesty: a call that ends with %v was applied", a.Outcome)
		}
	}
}

// confirm judges that somebody learned that a state is chosen. The states form
// a chain, in which each call's value follows the state that it expects.
func (s *sim) confirm(w *world, e entry) {
	if e.id < rootID && w.dead&(1<<e.id) != 0 {
		w.bad = fmt.Sprintf("honesty: the value of call %d was applied after it was refused", e.id)
	}
	at, found := slices.BinarySearchFunc(w.chain[:w.links], e, func(a, b entry) int { return int(a.version) - int(b.version) })
	switch {
	case found && w.chain[at].id != e.id:
		w.bad = fmt.Sprintf("one ID: version %d is of calls %d and %d", e.version, w.chain[at].id, e.id)
		return
	case found:
		return
	}
	copy(w.chain[at+1:], w.chain[at:w.links])
	w.chain[at] = e
	w.links++
	for k, b := range w.chain[1:w.links] {
		a := w.chain[k]
		if b.id == 0 && a.version > w.ruin {
			w.bad = fmt.Sprintf("order: a bare deletion %d follows %d although no majority was lost", b.version, a.version)
		}
		if b.id != 0 && b.id != rootID {
			if pre := s.expected(w, b.id); pre.version < a.version || pre.version == a.version && pre.id != a.id && pre.id != anyID {
				w.bad = fmt.Sprintf("order: version %d of call %d, which expected %d, follows %d", b.version, b.id, pre.version, a.version)
			}
		}
	}
}

func (s *sim) expected(w *world, id uint8) entry {
	return w.proc[(id-1)/maxCalls].expect[(id-1)%maxCalls]
}

// canon brings worlds that behave alike into one form.
func (s *sim) canon(w *world) {
	for p := range s.procs {
		x := &w.proc[p]
		if reader := s.reader && p == s.procs-1; reader || x.calls < s.calls[p] || x.view.Call.Stage != Ended {
			continue
		}
		var left View
		for i := range s.groups[p].Members {
			m := &x.view.Members[i]
			if fits := m.Rev == w.reg[s.at(p, i)].rev; m.Doing > Looking && (fits || m.Rev == 0) {
				left.Members[i] = Member{Rev: m.Rev, Doing: m.Doing, Sent: m.Sent}
			}
		}
		if left != x.view.View {
			x.view = s.boxed(&left, s.groups[p].Members)
		}
		x.tries = 0
	}
	for k := range w.late {
		if l := &w.late[k]; l.used && l.rev != 0 && l.rev != w.reg[l.member].rev {
			*l = straggler{}
		}
	}
	if w.late[1].used && !w.late[0].used {
		w.late[0], w.late[1] = w.late[1], straggler{}
	}
	if w.wipes == s.wipes || !s.kinds.has(kRollback) {
		w.before = [MaxMembers]register{}
	}
	if w.faults == s.faults && w.wipes == s.wipes {
		w.faults, w.wipes = s.faults, s.wipes
	}
}

// id returns what distinguishes w from worlds that do not behave alike.
func (s *sim) id(w *world) fingerprint {
	var member [MaxMembers]fingerprint
	for i := range s.members {
		b := s.buf[:0]
		b = append(b, byte(w.reg[i].rev), byte(w.lost>>i)&1)
		b = appendAcceptor(b, &w.reg[i].Acceptor)
		if s.kinds.has(kRollback) {
			b = appendAcceptor(append(b, byte(w.before[i].rev)), &w.before[i].Acceptor)
		}
		for k := range w.late {
			if l := &w.late[k]; l.used && int(l.member) == i {
				b = appendAcceptor(append(b, 1, byte(l.rev)), &l.content)
			}
		}
		for p := range s.procs {
			if k := i - s.at(p, 0); k >= 0 && k < s.groups[p].Members {
				b = appendID(append(b, byte(p)), w.proc[p].view.member[k])
			}
		}
		s.buf = b
		member[i] = s.of(b)
	}
	slices.SortFunc(member[:s.members], func(a, b fingerprint) int { return cmp.Compare(a[0], b[0]) })
	b := s.buf[:0]
	b = append(b, w.faults, w.wipes, byte(w.dead), byte(w.dead>>8), w.links)
	b = binary.AppendUvarint(binary.AppendUvarint(b, w.top), w.ruin)
	for _, e := range w.chain[:w.links] {
		b = append(binary.AppendUvarint(b, e.version), e.id)
	}
	for p := range s.procs {
		x := &w.proc[p]
		b = append(b, x.calls, x.tries)
		for _, e := range x.expect[:x.calls] {
			b = append(binary.AppendUvarint(b, e.version), e.id)
		}
		b = appendID(b, x.view.rest)
	}
	for i := range s.members {
		b = appendID(b, member[i])
	}
	s.buf = b
	return s.of(b)
}

func appendID(b []byte, id fingerprint) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, id[0]), id[1])
}

func (s *sim) boxed(v *View, members int) *box {
	x := &box{View: *v}
	all := s.viewBuf[:0]
	for i := range members {
		b := appendMember(s.buf[:0], v, i)
		s.buf = b
		x.member[i] = s.of(b)
		all = appendID(all, x.member[i])
	}
	s.buf = appendRest(s.buf[:0], v)
	x.rest = s.of(s.buf)
	all = appendID(all, x.rest)
	s.viewBuf = all
	x.id = s.of(all)
	if known := s.boxes[x.id]; known != nil {
		return known
	}
	s.boxes[x.id] = x
	return x
}

func (s *sim) of(b []byte) fingerprint {
	return fingerprint{maphash.Bytes(s.seeds[0], b), maphash.Bytes(s.seeds[1], b)}
}

func appendMember(b []byte, v *View, i int) []byte {
	m, c := &v.Members[i], &v.Call
	b = append(b, byte(m.Rev), boolByte(m.Fresh)|boolByte(m.Suspect)<<1, byte(m.Doing))
	b = appendAcceptor(b, &m.Acceptor)
	b = appendBallot(appendBallot(b, m.Most.Promised), m.Most.Ballot)
	for _, mask := range []Mask{c.Heal, c.Reports, c.Remember, c.Votes, c.Failed, c.Denied} {
		b = append(b, boolByte(mask.Has(i)))
	}
	if m.Doing > Looking {
		b = appendAcceptor(b, &m.Sent)
	}
	return b
}

func appendRest(b []byte, v *View) []byte {
	c := &v.Call
	b = appendValue(appendValue(b, &v.Shown), &v.Led)
	b = appendBallot(b, v.Lead)
	b = binary.AppendUvarint(binary.AppendUvarint(b, v.Counter), v.Newest)
	b = append(b, byte(c.Stage))
	if c.Stage == Ended {
		return b
	}
	b = append(b, byte(c.Loose), boolByte(c.Remains))
	b = binary.AppendUvarint(binary.AppendUvarint(b, c.Expected), c.Ceiling)
	b = appendBallot(appendBallot(b, c.Ballot), c.Next)
	b = appendValue(appendValue(b, &c.Own), &c.Proposal)
	return appendAcceptor(b, &c.Highest)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendBallot(b []byte, x Ballot) []byte {
	return append(binary.AppendUvarint(b, x.Counter), byte(x.Random))
}

func appendValue(b []byte, v *Value) []byte {
	b = append(binary.AppendUvarint(b, v.Version), v.ID[0], boolByte(v.Tombstone))
	for k := 0; k < MaxChain && v.Ancestors[k] != 0; k++ {
		b = append(b, byte(v.Ancestors[k]>>56))
	}
	return append(b, 0)
}

func appendAcceptor(b []byte, a *Acceptor) []byte {
	b = append(b, byte(a.Set), boolByte(a.Founding)|boolByte(a.Marked)<<1)
	return appendValue(appendBallot(appendBallot(b, a.Promised), a.Ballot), &a.Value)
}

// tell describes the registers and calls of w in a line each.
func (s *sim) tell(b *strings.Builder, n *next, w *world) {
	fmt.Fprintf(b, "  P%d %s, member %d\n", n.who, kindNames[n.kind], n.member)
	for i := range s.members {
		fmt.Fprintf(b, "      %d: %v\n", i, &w.reg[i])
	}
	for p := range s.procs {
		c := &w.proc[p].view.Call
		fmt.Fprintf(b, "      P%d stage %d ballot %v proposes %v, reports %b votes %b, lead %v, shown %d\n",
			p, c.Stage, c.Ballot, &c.Proposal, c.Reports, c.Votes, w.proc[p].view.Lead, w.proc[p].view.Shown.Version)
	}
	fmt.Fprintf(b, "      chain %v", w.chain[:w.links])
	if w.bad != "" {
		fmt.Fprintf(b, " VIOLATION %s", w.bad)
	}
	b.WriteString("\n")
}

func (v *Value) String() string {
	text := fmt.Sprintf("version %d of call %d", v.Version, v.ID[0])
	for k := 0; k < MaxChain && v.Ancestors[k] != 0; k++ {
		text += fmt.Sprintf(" after %d", v.Ancestors[k]>>56)
	}
	return text
}

func (r *register) String() string {
	text := fmt.Sprintf("revision %d promised %v accepted %v %v", r.rev, r.Promised, r.Ballot, &r.Value)
	if r.Founding {
		text += ", founding"
	}
	if r.Marked {
		text += ", marked"
	}
	return text
}
