package machine

import (
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden traces in testdata")

// testdata is part of the test's binary, and no file that a test opens: the
// build cache then answers for the explorers in each clone, since the go
// command remembers an opened file by its absolute path and time.
//
//go:embed testdata
var testdata embed.FS

// TestTraces replays the stories in testdata. A story is a text file: lines
// that begin with # explain, lines that begin with > are commands, and what
// follows a command is what happened, rewritten by
//
//	go test -run TestTraces -update ./internal/machine
//
// The commands, with a candidate where one is named:
//
//	group a b c [ttl=3s] [cool-down] [grace=1s]   who there is; all start and see the register
//	      [ranked] [backoff=1s]                   each is preferred to those named after it; campaigns back off
//	      [expires]                               the store drops records, and never brings an older one back
//	scene a b c [...]                             the same, narrated from when a leads
//	run 2s            ordinary life until 2 s: no latency, timers in time
//	crash a           restart a
//	pause a           resume a              the program stops, its clocks go on
//	suspend a 10s     the machine stops, and its monotonic clock with it
//	cut a             heal a                nothing sent arrives, nothing comes in; calls end unknown after 500 ms
//	lose-reply a      a's next write is applied, its reply is lost
//	stall a           land a                a's next write stays in the network; it arrives after all
//	refuse a          a's next write is refused by a replica that lags
//	slow a            done a                a's work does not stop when asked; it stops
//	deaf a            a's watch loses the next message
//	down a            up a                  a loses its connection and learns it; it is back
//	delete            garbage               what an operator does to the record
//	wipe              the store loses everything
//	step-down         transfer b            what an operator asks the holder for
//	take-over b       b, which is preferred, asks the holder for the lead
//	maintenance       reopen                an operator pauses the group, and resumes it
//	resign a          validate a
//	stop a            leave a               stop and release; stop and let the record expire
//	unfit a           fit a                 a's health check
func TestTraces(t *testing.T) {
	files, err := fs.Glob(testdata, "testdata/[0-9][0-9]-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(path.Base(name), ".txt"), func(t *testing.T) {
			want, err := testdata.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want))
			if got == string(want) {
				return
			}
			if !*update {
				t.Fatalf("the story is another now (-update rewrites it):\n%s", got)
			}
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// replay runs a story's commands and returns the story as it is.
func replay(t *testing.T, story string) string {
	st := &stage{t: t}
	for line := range strings.Lines(story) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
			st.out.WriteString(line + "\n")
		case strings.HasPrefix(line, "> "):
			st.out.WriteString(line + "\n")
			st.command(strings.Fields(line[2:]))
		}
	}
	return st.out.String()
}

// A message is an event on its way to a player.
type message struct {
	at time.Duration
	ev Event
}

// A player is one candidate of a story.
type player struct {
	id      string
	m       Machine
	s       State
	tokens  int
	lag     time.Duration // of the monotonic clock
	inbox   []message
	outbox  []Action
	stalled []Action
	undone  bool // demoted, work not stopped yet

	dead, paused, cut, slow             bool
	loseReply, stallNext, refuse, deafs bool
}

// A stage is where a story happens.
type stage struct {
	t       *testing.T
	out     strings.Builder
	now     time.Duration
	players []*player
	reg     Seen
	rev     uint64
	nonces  uint64
}

func (st *stage) command(f []string) {
	name, rest := f[0], f[1:]
	switch name {
	case "group":
		st.group(rest)
	case "scene":
		st.group(rest)
		told := st.out.Len()
		st.settle()
		kept := st.out.String()[:told]
		st.out.Reset()
		st.out.WriteString(kept)
	case "run":
		st.run(st.duration(rest[0]))
	case "delete":
		st.put(Bare, Record{})
	case "garbage":
		st.put(Malformed, Record{})
	case "wipe":
		// A bucket that we make starts at the time, so its revisions never
		// recur.
		st.rev, st.reg = st.rev+100, Seen{Kind: Absent}
		st.say("store", "the register is %s", &st.reg)
		st.publish()
	case "step-down":
		st.ask(Exit{Reason: ReasonSteppedDown, By: "operator"})
	case "transfer":
		st.ask(Exit{Reason: ReasonTransferred, By: "operator", Successor: rest[0]})
	case "take-over":
		st.ask(Exit{Reason: ReasonOutranked, By: rest[0], Successor: rest[0]})
	case "maintenance":
		st.tellAll(Event{Kind: Bar, Bars: Paused, Exit: Exit{Reason: ReasonPaused, By: "operator"}})
	case "reopen":
		st.tellAll(Event{Kind: Unbar, Bars: Paused})
	default:
		st.befall(st.player(rest[0]), name, rest[1:])
	}
	st.settle()
}

func (st *stage) group(names []string) {
	m := Machine{
		TTL: 3 * time.Second, Heartbeat: time.Second, MaxTTL: time.Minute, Drift: 0.1, DrainBudget: 5 * time.Second,
		HeadStart: time.Second,
		Settings:  Settings{Retry: Retry{Initial: 200 * time.Millisecond, Max: time.Second, Multiplier: 2}},
	}
	st.reg = Seen{Kind: Absent}
	for _, n := range names {
		key, value, _ := strings.Cut(n, "=")
		switch key {
		case "ttl":
			m.TTL = st.duration(value)
			m.Heartbeat = m.TTL / 3
		case "cool-down":
			m.CoolDown = true
		case "expires":
			m.Expires = true
		case "grace":
			m.DisconnectGrace = st.duration(value)
		case "ranked":
			m.Yield = 50 * time.Millisecond
		case "backoff":
			m.Backoff, m.MaxBackoff = st.duration(value), 4*st.duration(value)
		default:
			p := &player{id: n}
			st.players = append(st.players, p)
			p.inbox = []message{{ev: Event{Kind: Start}}, {ev: Event{Kind: Observed, Seen: st.reg}}}
		}
	}
	for _, p := range st.players {
		p.m = m
		p.m.ID = p.id
	}
}

// befall applies the command to p.
func (st *stage) befall(p *player, name string, args []string) {
	switch name {
	case "crash":
		*p = player{id: p.id, m: p.m, tokens: p.tokens, lag: p.lag, dead: true}
	case "restart":
		p.dead = false
		st.tell(p, Event{Kind: Start})
		st.tell(p, Event{Kind: Observed, Seen: st.reg})
	case "pause", "resume":
		p.paused = name == "pause"
	case "suspend":
		p.paused = true
		d := st.duration(args[0])
		st.run(st.now + d)
		p.lag += d
		p.paused = false
	case "cut":
		p.cut = true
	case "heal":
		p.cut = false
		st.tell(p, Event{Kind: Observed, Seen: st.reg})
	case "lose-reply":
		p.loseReply = true
	case "stall":
		p.stallNext = true
	case "land":
		for _, a := range p.stalled {
			st.apply(p, a)
		}
		p.stalled = nil
	case "refuse":
		p.refuse = true
	case "deaf":
		p.deafs = true
	case "slow", "done":
		p.slow = name == "slow"
	default:
		kinds := map[string]Event{
			"down": {Kind: ConnDown}, "up": {Kind: ConnUp}, "validate": {Kind: Validate},
			"resign": {Kind: Leave, Exit: Exit{Reason: ReasonResigned}},
			"stop":   {Kind: StopRelease}, "leave": {Kind: StopLeave},
			"unfit": {Kind: Bar, Bars: Unhealthy, Exit: Exit{Reason: ReasonUnhealthy}}, "fit": {Kind: Unbar, Bars: Unhealthy},
		}
		ev, ok := kinds[name]
		if !ok {
			st.t.Fatalf("unknown command %q", name)
		}
		st.tell(p, ev)
	}
}

func (st *stage) tellAll(ev Event) {
	for _, p := range st.players {
		if !p.dead {
			st.tell(p, ev)
		}
	}
}

func (st *stage) ask(x Exit) {
	for _, p := range st.players {
		if p.s.Phase == Holding {
			st.tell(p, Event{Kind: Asked, Term: p.s.Grant.Term, Exit: x})
		}
	}
}

func (st *stage) player(id string) *player {
	for _, p := range st.players {
		if p.id == id {
			return p
		}
	}
	st.t.Fatalf("nobody is called %q", id)
	return nil
}

func (st *stage) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		st.t.Fatal(err)
	}
	return d
}

func (st *stage) say(who, format string, args ...any) {
	fmt.Fprintf(&st.out, "%8v  %-5s  %s\n", st.now.Truncate(time.Millisecond), who, fmt.Sprintf(format, args...))
}

func (st *stage) tell(p *player, ev Event) { p.inbox = append(p.inbox, message{st.now, ev}) }

func (p *player) running() bool { return !p.dead && !p.paused }

func (p *player) clocks(now time.Duration) Instant {
	return Instant{Mono: int64(now - p.lag), Wall: int64(now)}
}

// run lets time pass until the given time, from timer to timer.
func (st *stage) run(until time.Duration) {
	st.settle()
	for {
		next := until
		for _, p := range st.players {
			if !p.running() {
				continue
			}
			if w := p.m.Wake(&p.s); w < Never {
				next = min(next, time.Duration(w)+p.lag)
			}
			for _, m := range p.inbox {
				next = min(next, m.at)
			}
		}
		st.now = max(st.now, next)
		st.settle()
		if st.now >= until {
			return
		}
	}
}

// settle lets everything happen that happens now.
func (st *stage) settle() {
	turns := 0
	for again := true; again; turns++ {
		if turns == 10_000 {
			st.t.Fatalf("at %v nobody comes to rest", st.now)
		}
		again = false
		for _, p := range st.players {
			again = st.turn(p) || again
		}
	}
}

// turn lets one thing happen to p, and reports whether there was one.
func (st *stage) turn(p *player) bool {
	switch {
	case p.dead:
		return false
	case len(p.outbox) > 0:
		a := p.outbox[0]
		p.outbox = p.outbox[1:]
		st.call(p, a)
	case !p.running():
		return false
	case p.arrived(st.now) >= 0:
		k := p.arrived(st.now)
		ev := p.inbox[k].ev
		p.inbox = slices.Delete(p.inbox, k, k+1)
		st.step(p, ev)
	case p.undone && !p.slow:
		p.undone = false
		st.step(p, Event{Kind: Drained})
	case p.m.Wake(&p.s) <= int64(st.now-p.lag):
		st.step(p, Event{Kind: Tick})
	default:
		return false
	}
	return true
}

// arrived returns the message that came first, of those that came; -1 is none.
func (p *player) arrived(now time.Duration) int {
	first := -1
	for k, m := range p.inbox {
		if m.at <= now && (first < 0 || m.at < p.inbox[first].at) {
			first = k
		}
	}
	return first
}

const callTimeout = 500 * time.Millisecond

// call performs a Send or a Look of p.
func (st *stage) call(p *player, a Action) {
	unanswered := message{st.now + callTimeout, Event{Kind: Written, Op: a.Op, Outcome: Unknown}}
	if a.Kind == Look {
		unanswered.ev.Kind = Read
	}
	switch {
	case p.cut:
		p.inbox = append(p.inbox, unanswered)
	case a.Kind == Look:
		st.tell(p, Event{Kind: Read, Op: a.Op, Seen: st.reg})
	case p.stallNext:
		p.stallNext, p.stalled = false, append(p.stalled, a)
		p.inbox = append(p.inbox, unanswered)
	case p.refuse:
		p.refuse = false
		st.tell(p, Event{Kind: Written, Op: a.Op, Outcome: Conflict})
	default:
		out := st.apply(p, a)
		if p.loseReply {
			p.loseReply = false
			p.inbox = append(p.inbox, unanswered)
			return
		}
		st.tell(p, Event{Kind: Written, Op: a.Op, Outcome: out, Rev: st.rev})
	}
}

func (st *stage) apply(p *player, a Action) Outcome {
	if st.reg.Rev != a.Expected {
		st.say("store", "%s's %v is refused: the register stands at %d, not %d", p.id, a.Write, st.reg.Rev, a.Expected)
		return Conflict
	}
	k := Held
	if a.Write == Release {
		k = Vacant
	}
	st.put(k, a.Rec)
	return OK
}

func (st *stage) put(k Kind, rec Record) {
	st.rev++
	st.reg = Seen{Kind: k, Rev: st.rev, Rec: rec}
	if k == Vacant {
		st.say("store", "the register is %s: %s by %s", &st.reg, rec.Reason, rec.By)
	} else {
		st.say("store", "the register is %s", &st.reg)
	}
	st.publish()
}

func (st *stage) publish() {
	for _, p := range st.players {
		switch {
		case p.dead || p.cut:
		case p.deafs:
			p.deafs = false
		default:
			st.tell(p, Event{Kind: Observed, Seen: st.reg})
		}
	}
}

// step applies ev to p and narrates the effect, if any.
func (st *stage) step(p *player, ev Event) {
	before := p.s
	now := p.clocks(st.now)
	st.nonces++
	ev.Token, ev.Nonce = fmt.Sprintf("%s%d", p.id, p.tokens+1), st.nonces
	var actions []Action
	if p.m.Yield > 0 {
		ev.Seen.Behind, ev.Seen.Ranked = uint8(slices.Index(st.players, p)), true
	}
	p.s, actions = p.m.Step(p.s, ev, now)
	if p.s.Grant.Token == ev.Token {
		p.tokens++
	}
	if p.s == before && len(actions) == 0 {
		return // an answer to a call that was forgotten
	}
	if ev.Kind == Observed && len(actions) == 0 && p.s.Public() == before.Public() && p.s.View.Kind == before.View.Kind {
		return // it knew
	}
	st.say(p.id, "%-22s %s", p.event(ev), p.situation(now))
	for _, a := range actions {
		st.say("", "    %s", performed(a))
		switch a.Kind {
		case Send, Look:
			p.outbox = append(p.outbox, a)
		case Demote:
			p.undone = true
		default:
		}
	}
}

func (p *player) event(ev Event) string {
	switch ev.Kind {
	case Observed:
		return fmt.Sprintf("sees %v@%d", ev.Seen.Kind, ev.Seen.Rev)
	case Read:
		if ev.Outcome != OK {
			return fmt.Sprintf("read: %v", ev.Outcome)
		}
		return fmt.Sprintf("reads %v@%d", ev.Seen.Kind, ev.Seen.Rev)
	case Written:
		if ev.Outcome == OK {
			return fmt.Sprintf("written: ok@%d", ev.Rev)
		}
		return fmt.Sprintf("written: %v", ev.Outcome)
	case Asked:
		return fmt.Sprintf("asked for term %d", ev.Term)
	default:
		return ev.Kind.String()
	}
}

var publicNames = [...]string{"init", "candidate", "leader", "follower", "demoted", "ended"}

// situation describes p's phase, until when, and what it waits for.
func (p *player) situation(now Instant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %v", publicNames[p.s.Public()], p.s.Phase)
	at := func(mono int64) string {
		return (time.Duration(mono) + p.lag).Truncate(time.Millisecond).String()
	}
	switch p.s.Phase {
	case Holding:
		fmt.Fprintf(&b, " term %d, trusted until %s (%v left)", p.s.Grant.Term, at(p.s.Grant.Trust.Mono),
			time.Duration(p.s.Grant.Trust.Mono-now.Mono))
		if !p.s.Grant.Promoted {
			fmt.Fprintf(&b, ", not before %s", at(p.s.Grant.PromoteAt))
		}
	case Watching:
		if p.s.View.Kind != Unseen {
			fmt.Fprintf(&b, " (%s), may claim at %s", p.s.Reason, at(max(p.s.DueAt, p.s.StandBackUntil)))
		}
	case Draining, Releasing, Stopped:
		fmt.Fprintf(&b, " (%s)", p.s.Reason)
	default:
	}
	if p.s.Write.Stage == BackingOff {
		fmt.Fprintf(&b, ", tries again at %s", at(p.s.Write.Due))
	}
	return b.String()
}

func performed(a Action) string {
	switch a.Kind {
	case Send:
		return fmt.Sprintf("send %v, expecting revision %d (%s)", a.Write, a.Expected, a.Reason)
	case Look:
		return "read the register"
	case Note:
		return fmt.Sprintf("note: %v", a.Note)
	default:
		return fmt.Sprintf("%v (%s)", strings.ToUpper(a.Kind.String()), a.Reason)
	}
}
