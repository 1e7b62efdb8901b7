// Package board follows all groups of a bucket, for the commands that show them
// to others: who leads, how long the lease is good for, which terms were seen,
// what is paused. It takes no part in the elections and writes nothing.
//
// Any writer of a key may write anything into it. So what is kept is bounded in
// number and in length, and reasons are limited to package leader's.
package board

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

const (
	// MaxGroups is how many groups are shown.
	MaxGroups = 20_000
	// MaxIgnored is how many others are counted, and followed out of sight: one
	// of them takes each place that becomes free.
	MaxIgnored = 2_000
	// MaxTerms is how many terms of a group are kept, the latest.
	MaxTerms = 40
)

// A Group is what is known of a group. A group without a record in the store is
// known while it is paused, with leader.ReasonAbsent.
type Group struct {
	leader.LeaderInfo
	// Latest is the number of the term that lasts, or of the last term that was
	// seen: a deletion or an unreadable record contains none.
	Latest uint64
	// Heard is when its record arrived last, by this machine's clock, and zero
	// if none did.
	Heard time.Time
	// Window is how long the lease was good for when its record arrived.
	Window time.Duration
	// Paused reports whether nobody is to lead, PausedBy and PauseWhy who asked
	// for that and why.
	Paused             bool
	PausedBy, PauseWhy string
	// Last led last, in a vacant group of which that is known. Came is why the
	// leader came to lead: why the previous leader left or, if that was not
	// seen, the reason in its record.
	Last string
	Came Cause
	// Terms are those that were seen, the latest last. It is shared: do not
	// modify it.
	Terms []Term
	// Changes counts the leaders that followed another, by why the other left.
	// It is shared, too.
	Changes map[leader.Reason]int
	// Malformed counts the records that could not be read, but those that others
	// replaced before they were delivered.
	Malformed int
	// Confirmed reports whether anything was seen to happen since the leader's
	// record was found: a renewal, or the claim itself. A record does not
	// contain its age, so the record of a leader which died an hour ago is
	// found like any other.
	Confirmed bool
	// Renewed is when the store took the latest renewal of a leader that is not
	// confirmed, by the store's clock, and zero if that is not known. Own:
	// Renewed is by the leader's clock, since the store does not report the
	// time.
	Renewed time.Time
	Own     bool

	found            bool      // its record was found, and no renewal has been heard since
	vacantSince      time.Time // of a group that was found vacant
	changed, renewed uint64    // values of Board.seq
}

// A Cause is why the leader of a group changed, who asked for that and in which
// words.
type Cause struct {
	Reason  leader.Reason
	By, Why string
}

// Since returns when the present term began or, in a vacant group, when the
// last one ended. It is zero if that was before the group was found, and nobody
// knows when.
func (g *Group) Since() time.Time {
	if len(g.Terms) == 0 {
		return g.vacantSince
	}
	switch t := g.Terms[len(g.Terms)-1]; {
	case !t.Ended.IsZero():
		return t.Ended
	case t.Older:
		return time.Time{}
	default:
		return t.Began
	}
}

// LastRenewal returns when the record was written last: when it arrived or, for
// a record that was found, its time by the clock of its writer. It is zero if
// there was none.
func (g *Group) LastRenewal() time.Time {
	if g.found && !g.LeaderInfo.Renewed.IsZero() {
		return earlier(g.LeaderInfo.Renewed, g.Heard)
	}
	return g.Heard
}

// absent reports whether the store has no record of the group.
func (g *Group) absent() bool { return g.ID == "" && g.Reason == leader.ReasonAbsent }

// Forgotten reports whether an operator marked the group as gone permanently.
func (g *Group) Forgotten() bool { return g.ID == "" && g.Reason == leader.ReasonForgotten }

// A Term is a term as it was seen from here.
type Term struct {
	Number      uint64
	Leader      string
	Correlation string
	// Began is when it was seen first. Older reports whether it was found then
	// and may have started at any time before. For a recalled term, Began is
	// the history's time.
	Began time.Time
	Older bool
	// Ended is when it was seen to have ended, zero while it lasts. Reason, By
	// and Why explain the end.
	Ended   time.Time
	Reason  leader.Reason
	By, Why string
}

// A Board holds what is known of all groups. The zero Board knows none. Its
// methods may be called concurrently.
type Board struct {
	mu        sync.Mutex
	seq       uint64 // counts whatever happens
	groups    map[string]*Group
	ignored   map[string]*Group // those for which there is no place
	pauses    map[string]inspect.Pause
	drains    app.Drains
	malformed map[string]malformedCount
	state     State
	wake      chan struct{} // closed at the next change
}

// A State is the state of the board itself.
type State struct {
	// Complete: whatever the bucket holds has been read. If it is false for
	// long, Failure has the cause.
	Complete bool
	Failure  string
	Failures int // how often that changed for the worse
	// Ignored is how many groups there are beyond MaxGroups, at least: no more
	// than MaxIgnored are counted.
	Ignored int
	// Drained is a line that names the instances that are drained. It is empty if
	// none is, or if the board does not show all groups.
	Drained string
}

// News is what Follow reports: that a group was added, changed, renewed or
// removed, or one of the others.
type News struct {
	Group   string
	Present bool  // all groups have been read
	Paused  bool  // all pauses are known, or cannot be
	Failed  error // why groups cannot be watched, if that is new; Follow tries again
}

// Follow fills the board with the groups that match a pattern until ctx is done.
// It calls report after each change, perhaps concurrently for pauses, and waits
// for it before it takes in the next one.
func (b *Board) Follow(ctx context.Context, st store.PatternWatcher, pattern string, report func(News)) error {
	var pauses sync.WaitGroup
	defer pauses.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// An observer that may not read the control records shows no pauses.
	pauses.Go(func() {
		app.FollowPauses(ctx, st, pattern, func(group string, p *inspect.Pause) {
			b.control(group, p)
			report(News{Group: group})
		}, b.drain, func() { report(News{Paused: true}) })
	})
	return leader.ObserveFuncWithStore(ctx, countingStore{app.Reporting{PatternWatcher: st}, b}, pattern, leader.Observer{
		Leader: func(info leader.LeaderInfo) {
			b.update(func() { b.leader(info, time.Now()) })
			report(News{Group: info.Group})
		},
		Renewed: func(info leader.LeaderInfo) {
			b.update(func() { b.renewal(info, time.Now()) })
			report(News{Group: info.Group})
		},
		Present: func() {
			b.update(b.present)
			report(News{Present: true})
		},
		Failed: func(err error) {
			news := false
			b.update(func() { news = b.failure(app.Words(err)) })
			if news {
				report(News{Failed: err})
			}
		},
	})
}

// present notes that all records have been read.
func (b *Board) present() {
	b.state.Complete, b.state.Failure = true, ""
	for group := range b.pauses {
		b.settle(group)
	}
}

func (b *Board) failure(text string) (news bool) {
	if news = b.state.Failure != text; news {
		b.state.Failures++
	}
	b.state.Complete, b.state.Failure = false, text
	return news
}

// update changes the board and wakes those who wait for that.
func (b *Board) update(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	change()
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// control records the pause of a group, nil for none.
func (b *Board) control(group string, p *inspect.Pause) {
	b.update(func() {
		switch was, there := b.pauses[group]; {
		case p == nil:
			delete(b.pauses, group)
		case len(b.pauses) >= MaxGroups+MaxIgnored && !there, there && was == *p:
			return
		default:
			if b.pauses == nil {
				b.pauses = make(map[string]inspect.Pause)
			}
			b.pauses[group] = *p
		}
		if g := b.find(group); g != nil {
			b.pause(g)
		}
		b.settle(group)
	})
}

// drain records the order by which an instance is drained, or its end.
func (b *Board) drain(key string, order inspect.Drain, drained bool) {
	b.update(func() {
		b.drains.Take(key, order, drained)
		b.state.Drained = b.drains.Line()
	})
}

// Drains returns the orders by which instances are drained, by their names.
func (b *Board) Drains() []inspect.Drain { return b.drains.Orders() }

// DrainWords describes how an instance is drained, as app.DrainWords.
func (b *Board) DrainWords(instance string) string { return b.drains.Words(instance) }

// settle keeps a group of which the store has no record while it is paused, and
// no longer: nobody will lead it until somebody sees that pause. That there is
// no record is not known before all have been read.
func (b *Board) settle(group string) {
	_, paused := b.pauses[group]
	switch g := b.find(group); {
	case g == nil && paused && b.state.Complete:
		b.add(group)
	case g != nil && !paused && g.absent():
		b.remove(group)
		b.fill()
	}
}

// remove takes a group off the board.
func (b *Board) remove(group string) {
	delete(b.groups, group)
	delete(b.ignored, group)
	delete(b.malformed, group)
}

// pause updates whether a group is paused.
func (b *Board) pause(g *Group) {
	p, paused := b.pauses[g.Group]
	if g.Paused == paused && g.PausedBy == p.By && g.PauseWhy == p.Reason {
		return // the record is about something else
	}
	g.Paused, g.PausedBy, g.PauseWhy = paused, p.By, p.Reason
	g.changed = b.seq
}

// find returns what is known of a group, also if there is no place for it.
func (b *Board) find(name string) *Group {
	if g := b.groups[name]; g != nil {
		return g
	}
	return b.ignored[name]
}

// renewal takes in a renewal. Of a group for which there was no room at all it
// may be the first that is heard since there is some.
func (b *Board) renewal(info leader.LeaderInfo, now time.Time) {
	g := b.find(info.Group)
	if g == nil {
		if g = b.add(info.Group); g == nil {
			return
		}
	}
	// Of one whose lease had run out when it was found it is the first sign of
	// life.
	if g.ID == "" {
		b.tell(g, info, g.absent(), now)
	}
	g.take(info)
	g.found = false
	g.Heard, g.Window, g.renewed = now, info.Until.Sub(now), b.seq
	if !g.Confirmed {
		g.confirm()
		g.changed = b.seq
	}
}

// take updates the group by a record.
func (g *Group) take(info leader.LeaderInfo) {
	g.LeaderInfo = info
	if info.Term != 0 {
		g.Latest = info.Term
	}
}

// confirm notes that the leader was seen to act.
func (g *Group) confirm() { g.Confirmed, g.Renewed, g.Own = true, time.Time{}, false }

// leader takes in who leads now.
func (b *Board) leader(info leader.LeaderInfo, now time.Time) {
	if info.ID == "" && info.Reason == leader.ReasonAbsent {
		b.remove(info.Group)
		b.settle(info.Group)
		b.fill()
		return
	}
	g := b.find(info.Group)
	found := (g == nil || g.absent()) && !b.state.Complete // the record existed before the board looked
	if g == nil {
		if g = b.add(info.Group); g == nil {
			return
		}
	}
	b.tell(g, info, found, now)
}

// fill gives the places that are free to groups that had none.
func (b *Board) fill() {
	for name, g := range b.ignored {
		if len(b.groups) >= MaxGroups {
			return
		}
		delete(b.ignored, name)
		b.groups[name], g.changed = g, b.seq
	}
}

// tell records who leads a group now. found: it did so before the board looked.
func (b *Board) tell(g *Group, info leader.LeaderInfo, found bool, now time.Time) {
	info.Reason = bounded(info.Reason)
	before := g.LeaderInfo
	g.take(info)
	g.changed = b.seq
	switch {
	case info.ID == "":
		g.Last = cmp.Or(before.ID, g.Last)
		g.vacate(now)
		if len(g.Terms) == 0 && !found {
			g.vacantSince = now
		}
	case info.ID == before.ID && info.Term == before.Term:
	default:
		g.enthrone(before, found, now)
	}
	// An expiry is what was not heard, unless a record was found whose lease ran
	// out before it could be looked at.
	if info.Reason != leader.ReasonExpired || g.Heard.IsZero() {
		g.Heard, g.found = now, found
	}
	if info.ID != "" {
		g.Window = info.Until.Sub(now)
	}
}

// add adds a group of which no record is known yet, or returns nil if there are
// too many.
func (b *Board) add(name string) *Group {
	if !store.ValidKey(name) {
		return nil // no candidate can campaign for it
	}
	if b.groups == nil {
		b.groups, b.ignored = make(map[string]*Group), make(map[string]*Group)
	}
	g := &Group{Malformed: b.malformed[name].count}
	g.Group, g.Reason = name, leader.ReasonAbsent
	switch {
	case len(b.groups) < MaxGroups:
		b.groups[name] = g
	case len(b.ignored) < MaxIgnored:
		b.ignored[name] = g
	default:
		return nil
	}
	b.pause(g)
	return g
}

// vacate notes that nobody leads, and why.
func (g *Group) vacate(now time.Time) {
	if g.Reason == leader.ReasonOverwritten {
		// It may be a deletion, or have come just before the group was gone: the
		// count went with that.
		g.Malformed = max(1, g.Malformed)
	}
	g.end(g.fell(now), g.Reason, g.By, g.Why)
	g.confirm()
}

// fell returns when the leader left that is seen to be gone now. A leader that
// was found dead died earlier. The clock of a leader may have been wrong.
func (g *Group) fell(now time.Time) time.Time {
	if g.Confirmed || g.Own || g.Renewed.IsZero() || g.Reason != leader.ReasonExpired {
		return now
	}
	return earlier(g.Renewed.Add(g.Window), now)
}

// end ends the term that lasts, if one does. Slices that were handed out stay
// as they are.
func (g *Group) end(now time.Time, reason leader.Reason, by, why string) {
	last := len(g.Terms) - 1
	if last < 0 || !g.Terms[last].Ended.IsZero() {
		return
	}
	g.Terms = slices.Clone(g.Terms)
	t := &g.Terms[last]
	t.Ended, t.Reason, t.By, t.Why = now, reason, by, why
	t.Began = earlier(t.Began, t.Ended)
}

// ReasonUnseen means that a leader followed another without a vacancy that was
// seen.
const ReasonUnseen leader.Reason = "unseen"

// enthrone notes that a leader follows what was before.
func (g *Group) enthrone(before leader.LeaderInfo, found bool, now time.Time) {
	g.confirm()
	g.Confirmed = !found
	last := len(g.Terms) - 1
	if last >= 0 && g.Terms[last].Number == g.Term && g.Terms[last].Leader == g.ID {
		// It had fallen silent, and its renewal came late.
		g.Terms = slices.Clone(g.Terms)
		t := &g.Terms[last]
		t.Ended, t.Reason, t.By, t.Why = time.Time{}, "", "", ""
		return
	}
	g.end(now, ReasonUnseen, "", "")
	g.Came = Cause{g.Reason, g.By, g.Why}
	if before.ID == "" && before.Reason != leader.ReasonAbsent {
		g.Came = Cause{before.Reason, before.By, before.Why}
	}
	if before.ID != "" || before.Reason != "" && before.Reason != leader.ReasonAbsent {
		reason := before.Reason
		if before.ID != "" {
			reason = ReasonUnseen
		}
		changes := maps.Clone(g.Changes)
		if changes == nil {
			changes = make(map[leader.Reason]int)
		}
		changes[reason]++
		g.Changes = changes
	}
	g.Terms = append(slices.Clone(g.Terms[max(0, len(g.Terms)-MaxTerms+1):]), Term{
		Number: g.Term, Leader: g.ID, Correlation: g.Correlation, Began: now, Older: found,
	})
}

// ReasonOther replaces reasons that package leader does not define.
const ReasonOther leader.Reason = "other"

// bounded keeps reasons that others made up out of labels.
func bounded(r leader.Reason) leader.Reason {
	switch r {
	case "", leader.ReasonAbsent, leader.ReasonVacant, leader.ReasonOffered, leader.ReasonExpired, leader.ReasonUnowned, leader.ReasonDeleted,
		leader.ReasonTrustExpired, leader.ReasonSuperseded, leader.ReasonOverwritten, leader.ReasonDisconnected,
		leader.ReasonRetriesSpent, leader.ReasonLateGrant, leader.ReasonResigned, leader.ReasonTransferred,
		leader.ReasonSteppedDown, leader.ReasonStopped, leader.ReasonPanicked, leader.ReasonCrashed, leader.ReasonClosed, leader.ReasonUnhealthy, leader.ReasonPaused,
		leader.ReasonOutranked, leader.ReasonBalanced, leader.ReasonDrained, leader.ReasonRemnant, leader.ReasonVacated, leader.ReasonForgotten:
		return r
	default:
		return ReasonOther
	}
}

// A Delta is what is new on a board.
type Delta struct {
	Seq     uint64
	State   State
	Changed []Group // in the order of their names
	Renewed []Group // groups of which nothing else is new
	Count   int     // how many groups there are
}

// Since returns what is new since an earlier Delta, everything since 0.
func (b *Board) Since(seq uint64) Delta {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := Delta{Seq: b.seq, State: b.stands(), Count: len(b.groups)}
	for _, g := range b.groups {
		switch {
		case seq == 0 || g.changed > seq:
			d.Changed = append(d.Changed, *g)
		case g.renewed > seq:
			d.Renewed = append(d.Renewed, *g)
		}
	}
	byName := func(a, b Group) int { return cmp.Compare(a.Group, b.Group) }
	slices.SortFunc(d.Changed, byName)
	slices.SortFunc(d.Renewed, byName)
	return d
}

// State returns the state of the board itself.
func (b *Board) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stands()
}

func (b *Board) stands() State {
	s := b.state
	s.Ignored = len(b.ignored)
	return s
}

// Names returns the names of all groups, as a set.
func (b *Board) Names() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make(map[string]bool, len(b.groups))
	for name := range b.groups {
		names[name] = true
	}
	return names
}

// Group returns what is known of one group.
func (b *Board) Group(name string) (Group, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.groups[name]; g != nil {
		return *g, true
	}
	return Group{}, false
}

// After returns a channel that is closed as soon as anything is newer than seq.
func (b *Board) After(seq uint64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	wake := b.wake
	if b.seq > seq {
		close(wake)
		b.wake = nil
	}
	return wake
}
