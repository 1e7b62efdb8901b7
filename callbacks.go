package leader

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// handTerm hands in a call of the callbacks of a term. A panic of ours in it ends
// the election, and instead, which may be nil, is then called in the place of do.
// Panics of the callbacks, and their runtime.Goexit, never come this far.
func (e *election) handTerm(do, instead func()) {
	e.courier.hand(ofTerm, e.delivery("courier", do, instead))
}

// handNews hands in news that belong to no term of ours. They go their own way,
// so that neither waits for the other: a leader is not to wait for the
// OnLeaderChange of what it does not act on.
func (e *election) handNews(kind news, do func()) {
	e.newsman.hand(kind, e.delivery("newsman", do, nil))
}

func (e *election) delivery(what string, do, instead func()) func() {
	return func() {
		shield.Call(func() {
			faults.Point(what)
			do()
		}, func(value any, stack []byte) {
			if value == nil {
				return // runtime.Goexit is a callback's, and was reported
			}
			e.crash(what, value, stack)
			if instead != nil {
				shield.Call(instead, e.reportPanic(what))
			}
		})
	}
}

// callPromote calls OnPromote for a term, unless that is over already: a callback is never
// told of a term that it could only act on too late.
func (e *election) callPromote(g *grant) {
	if g.promoted || !g.open() {
		return
	}
	g.promoted = true
	begun := time.Now()
	e.promoting.Store(true)
	// Deferred, since runtime.Goexit in a callback ends this goroutine, too.
	defer e.promoting.Store(false)
	defer func() { e.reportCallback(Callback{Kind: "promote", Term: g.term, Took: time.Since(begun)}) }()
	report := e.reportPanic("OnPromote")
	fail := func(value any, stack []byte) {
		report(value, stack)
		e.mail.event(machine.Event{
			Kind: machine.Asked, Term: g.term.Number, Exit: machine.Exit{Reason: machine.ReasonPanicked},
		})
	}
	for i, f := range e.promoteCallbacks() {
		// The callback before this one may have lasted for the whole term. The first
		// is called in any case: what is promoted will be demoted.
		if i > 0 && !g.open() || !shield.Call(func() { f(g.ctx, g.term) }, fail) {
			return
		}
	}
}

// callDemote calls OnDemote for a term that OnPromote was called for.
func (e *election) callDemote(g *grant) {
	if g == nil || !g.promoted {
		return
	}
	g.promoted = false
	begun := time.Now()
	defer func() { e.reportCallback(Callback{Kind: "demote", Term: g.term, Took: time.Since(begun)}) }()
	e.callEach(e.demoteCallbacks(), e.reportPanic("OnDemote"))
}

// callEach calls all of fs, whatever becomes of those before: runtime.Goexit runs what is deferred.
func (e *election) callEach(fs []func(), report func(value any, stack []byte)) {
	if len(fs) == 0 {
		return
	}
	defer e.callEach(fs[1:], report)
	shield.Call(fs[0], report)
}

func (e *election) promoteCallbacks() []func(context.Context, Term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.promoted
}

func (e *election) demoteCallbacks() []func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.demoted
}

// tellCampaign hands the beginning of a campaign to the callbacks.
func (e *election) tellCampaign(r Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.campaign) == 0 {
		return
	}
	calls := make([]func(), len(e.campaign))
	for i, f := range e.campaign {
		calls[i] = func() { e.callTimed("campaign", func() { f(r) }, e.reportPanic("OnCampaign")) }
	}
	e.handNews(ofCampaign, func() { e.callEach(calls, reported) })
}

// tellLeader hands who leads now to the observers and the callbacks.
func (e *election) tellLeader(info LeaderInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for slot := range e.watchers {
		slot.put(info)
	}
	if len(e.changed) == 0 {
		return
	}
	calls := make([]func(), len(e.changed))
	for i, f := range e.changed {
		calls[i] = func() { e.callTimed("leader-change", func() { f(info) }, e.reportPanic("OnLeaderChange")) }
	}
	e.handNews(ofLeader, func() { e.callEach(calls, reported) })
}

// reported is for calls that report their panics themselves.
func reported(any, []byte) {}

// callTimed calls a callback that belongs to no term of ours, and reports how long it took.
func (e *election) callTimed(kind string, f func(), fail func(value any, stack []byte)) {
	begun := time.Now()
	// Deferred, for runtime.Goexit.
	defer func() { e.reportCallback(Callback{Kind: kind, Took: time.Since(begun)}) }()
	shield.Call(f, fail)
}
