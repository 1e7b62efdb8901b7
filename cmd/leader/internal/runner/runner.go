//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/candidate"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/clock"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/guard"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"
	"github.com/seed-ff2cb582/leader/once"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store"
)

// The backoff before the program is started again. It doubles with each run
// that was shorter than it.
const (
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

// A runner runs the program in the terms of one candidate.
//
// Each group calls back on separate goroutines, signals come from another, and
// the goroutines of limit watch as well. mu orders what they decide: whether a
// program may start (active and ending), and whether a term may begin (leads
// and over). It is not held while anything waits, except for a fork. at is
// atomic, not under mu, since called reads it with each renewal.
type runner struct {
	c    *Command
	err  io.Writer
	path string
	argv []string
	cfg  leader.ElectionConfig

	proofKey proof.Key // of --proof-key

	parent  guard.Parent // of the program
	session *app.Session
	period  once.Period    // of --once
	runs    *once.Register // of --once
	keys    store.Watcher  // the bucket
	// storedAt is the session's StoredAt.
	storedAt    func(ctx context.Context, key string) (time.Time, uint64, error)
	candidacies []*candidacy              // where it campaigns: one candidacy or, with --slots, one per slot
	at          atomic.Pointer[candidacy] // where it leads, or did last

	result chan int    // the exit status, once
	warned atomic.Bool // that others have other --slots
	// finished is set when there is one. It is atomic, not under mu, which some
	// hold when they call finish.
	finished atomic.Bool

	mu     sync.Mutex
	shells map[int]struct{}             // the processes of hooks and checks
	active bool                         // a program runs
	ending syscall.Signal               // the signal that ends leader run
	leads  bool                         // a term has started, and its end was not seen
	over   bool                         // no term is to begin any more
	late   bool                         // the period of --once is over
	known  map[string]leader.LeaderInfo // who leads a group, if it is another
}

// run connects, takes its candidacies and takes part until the program, a signal or
// the election ends it. Mistakes in the command line, the key or the program
// are found before it connects, since nobody may watch from then on.
func (c Command) run(signalled context.Context, path string, std app.Streams) error {
	ctx := context.WithoutCancel(signalled) // the signals behind it are the program's
	r := &runner{
		c: &c, err: std.Err, path: path, argv: c.Program, result: make(chan int, 1), shells: make(map[int]struct{}),
		known: make(map[string]leader.LeaderInfo),
	}
	r.parent = guard.Parent{
		Window: clock.NewWindow(), Clock: clock.New(clock.Now), Passing: make(chan syscall.Signal, 16),
		Aside: r.aside, Say: r.say, Stuck: r.resign,
		Ending: guard.Ending{Signal: unix.SignalNum("SIG" + c.StopSignal), Alone: c.KillMode == killMixed, Bounded: c.StopTimeout > 0},
	}
	var err error
	if r.cfg, r.parent.Limits, err = c.config(r.check, std); err != nil {
		return err
	}
	if err := r.checkEnd(); err != nil {
		return err
	}
	if r.proofKey, err = c.proofKey(); err != nil {
		return err
	}
	// The guard goes by when renewals left, not by the library's trust window:
	// that closes immediately when a term is given up, and the program needs
	// what is left of the lease for its end.
	r.cfg.Hooks.PerElection = func(_ leader.Election, cfg leader.ElectionConfig) leader.Hooks {
		return leader.Hooks{Call: func(call leader.Call) { r.called(cfg.Group, call) }}
	}
	// Before the connection, which may be waited for without end: a signal and
	// the period of --once end leader run then, too.
	unheed := r.heed(signalled)
	defer unheed()
	beside, cancel := context.WithCancel(ctx)
	defer cancel()
	r.beginPeriod(beside)
	// Before the connection, too: an orchestrator would kill a host that waits
	// for its store. And before stand, which copies the configuration: the
	// metrics are hooks of it.
	web, err := openWeb(beside, c.HTTP, c.Hosts, &r.cfg, std.Err)
	if err != nil {
		return err
	}
	session, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	// Processes that the program leaves behind then become our children, and
	// are found.
	if err := process.Adopt(); err != nil {
		return err
	}
	r.parent.Reaper = process.NewSharedReaper()
	defer r.parent.Reaper.Close()
	all, candidacies, err := c.stand(session, r.cfg)
	if err != nil {
		return err
	}
	if r.keys, err = keys(session); err != nil {
		return err
	}
	r.session, r.storedAt, r.candidacies = session, session.StoredAt, candidacies
	r.runs = r.register(r.keys, r.storedAt)
	r.limit(beside)
	web.show(r.candidacies) // before the election starts, since a server of NATS may still be waited for
	return r.elect(ctx, all)
}

// checkEnd looks for what it takes to end the program, and refuses one that
// could not be ended.
func (r *runner) checkEnd() error {
	where, why, err := process.FindCgroups(r.c.Cgroup)
	if err != nil {
		return err
	}
	r.parent.Cgroups, r.parent.NeedCgroup = where, r.c.Cgroup != process.CgroupAuto && r.c.Cgroup != process.CgroupOff
	becomes := process.BecomesAnother(r.path)
	if becomes == "" {
		return nil
	}
	if why == nil {
		// Without a cgroup it would have been refused.
		r.parent.NeedCgroup = r.parent.NeedCgroup || !r.c.AllowSetuid
		return nil
	}
	// Like a shell's error for a file that it found and may not execute.
	if err := process.Refusal(becomes, why); !r.c.AllowSetuid {
		r.say("%v", err)
		return &app.ExitError{Code: guard.ExitCannotRun}
	}
	r.say("%s: leader run may not be able to end it", becomes)
	return nil
}

// connect connects to the store, unless leader run ends before that. A store
// elsewhere than on NATS is waited for here, one on NATS by the election. A
// connection attempt that runs when leader run ends is left to end with the
// process, but for the server of --dev: that is waited for, since its files
// would stay. Nor does --try give it up.
func (r *runner) connect(ctx context.Context) (*app.Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.c.Try && !r.c.Dev {
		late := time.AfterFunc(r.c.Timeout, func() { r.giveUp(app.ExitTimeout, unreached) })
		defer late.Stop()
	}
	type connected struct {
		session *app.Session
		err     error
	}
	got := make(chan connected, 1)
	go func() {
		s, err := r.c.Connect(ctx, "run", r.err)
		got <- connected{s, err}
	}()
	select {
	case c := <-got:
		return c.session, c.err
	case code := <-r.result:
		if r.c.Dev {
			if c := <-got; c.err == nil {
				c.session.Close()
			}
		}
		return nil, &app.ExitError{Code: code}
	}
}

// elect takes part in the election until the program, or a signal, ends it.
func (r *runner) elect(ctx context.Context, all contest) error {
	// The goroutines below end with this function, not with ctx, which is never
	// done.
	done := make(chan struct{})
	defer close(done)

	// A label that a killed process left behind would show leader until the
	// first demotion. So it is set before anything can be won.
	r.hook(ctx, r.c.Label, roleFollower, leader.Term{})
	if err := r.awaitFit(ctx); err != nil {
		return err
	}
	// With room for all: nobody takes a second one.
	ended := make(chan error, len(r.candidacies))
	for _, s := range r.candidacies {
		s.e.OnPromote(func(ctx context.Context, _ string) { r.lead(ctx, s) })
		s.e.OnDemote(func() { r.left(s) })
		s.e.OnLeaderChange(r.wait)
	}
	r.say("campaigning for %s as %q in %s", r.c.Group, r.cfg.InstanceID, r.session.Place())
	if err := all.Start(ctx); err != nil {
		return err
	}
	if r.c.Slots > 1 {
		beyond, stop := context.WithCancel(ctx)
		defer stop()
		go r.lookBeyond(beyond)
	}
	for _, s := range r.candidacies {
		go func() {
			select {
			case <-s.e.Done():
				ended <- s.e.Err()
			case <-done:
			}
		}()
	}
	// Only the release remains at the end, and a server that is gone must not
	// hold it up. The hooks of the demotion come before it, and may take a
	// timeout each.
	patience := 2 * r.c.Timeout
	for _, hook := range []string{r.c.OnDemote, r.c.Label} {
		if hook != "" {
			patience += r.c.Timeout
		}
	}
	var result error
	select {
	case code := <-r.result: // the program has ended
		result = &app.ExitError{Code: code}
	case result = <-ended:
		// The election has ended by itself. A supervisor may start leader run
		// again. With --slots the program may run in another slot: it is asked
		// to end before leader run does, since its guard would kill it at once.
		patience += r.parent.Limits.Stop + r.parent.Limits.Margin
	}
	err := all.StopWithContext(ctx, leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: patience})
	if err != nil && !errors.Is(err, result) { // main prints this error
		r.say("%v", err)
	}
	return result
}

// awaitFit waits until the check has passed, unless leader run ends before that:
// --try ends it at the first failure. A check that is under way then is ended,
// and not waited for longer than it may take, as by the election.
func (r *runner) awaitFit(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fit := make(chan bool, 1)
	go func() {
		fit <- candidate.AwaitFit(ctx, r.cfg, func() {
			if r.c.Try {
				r.giveUp(exitTaken, fmt.Sprintf("not to lead %s: %s", r.c.Group, leader.ReasonUnhealthy))
				return
			}
			r.say("waiting: this host is not fit to lead: the check failed")
		})
	}()
	select {
	case <-fit:
		return nil
	case code := <-r.result:
		cancel()
		_, timeout := candidate.CheckTimes(r.cfg)
		select {
		case <-fit:
		case <-time.After(timeout):
		}
		return &app.ExitError{Code: code}
	}
}

// heed takes signals in until stop is called. A signal that has ended the
// context came before, and is not delivered again.
func (r *runner) heed(signalled context.Context) (stop func()) {
	// With room, since Notify drops what nobody takes at once.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, guard.Signals()...)
	// pass ends with this, not with a context: run's context carries no signal
	// and is never done.
	done := make(chan struct{})
	go r.pass(signals, done)
	if signalled.Err() != nil {
		early := syscall.SIGTERM // also where no signal came: the reader of the output has left
		if s, ok := errors.AsType[app.SignalError](context.Cause(signalled)); ok {
			early = s.Signal
		}
		r.receive(early)
	}
	return func() {
		close(done)
		signal.Stop(signals)
	}
}

// pass takes signals in until done. It runs on a separate goroutine: run waits
// for the store, for the program's end and then for the release, and a signal
// is not to wait for any of these.
func (r *runner) pass(signals <-chan os.Signal, done <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if sig, ok := s.(syscall.Signal); ok {
				r.receive(sig)
			}
		case <-done:
			return
		}
	}
}

// receive passes a signal on, or ends us if it asks for that and no program
// runs.
func (r *runner) receive(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Noted also while a program runs: it may ignore the signal and end by
	// itself, and is not to be started again then.
	if guard.Ends(sig) {
		r.ending = sig
	}
	switch {
	case r.active:
		select {
		case r.parent.Passing <- sig:
		default: // a program that does not take the first sixteen
		}
	// SIGHUP does not: a reload of all hosts is for the program that runs, and
	// must leave the standbys.
	case guard.Ends(sig):
		r.finish(guard.ExitSignal + int(sig))
	}
}

// mayLead claims the right to lead, and reports whether it was there: it is
// over once leader run was given up. Under the lock of giveUp: either the term
// begins or leader run ends, and never a program that nobody waits for.
func (r *runner) mayLead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = !r.over
	return r.leads
}

// giveUp ends leader run with a status, unless a term has started. It may be
// called from any goroutine, and more than once.
func (r *runner) giveUp(code int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// What --try saw may be older than the claim that was granted meanwhile.
	if r.leads || r.over {
		return
	}
	r.over = true
	r.say("%s", why)
	r.finish(code)
}

// finish ends leader run with a status. The first status is kept. It does not
// wait: a callback of the election calls it, and elect may be waiting for just
// that callback.
func (r *runner) finish(code int) {
	r.finished.Store(true)
	select {
	case r.result <- code:
	default:
	}
}

// begin claims the right to start a program in the term of ctx, and reports
// whether it was there. It is over with the term, and once leader run ends.
//
// A term may end before its program begins, while a hook runs. The guard could
// not notice: the lease lasts on, and is renewed until all work of the term is
// over.
func (r *runner) begin(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// By the lock of receive: a signal finds the program, or keeps it from
	// being started, and never neither.
	r.active = r.ending == 0 && !r.finished.Load() && ctx.Err() == nil
	return r.active
}

// end takes the permission to run back, and returns the signal that asked
// leader run to end meanwhile, if any.
//
// A signal that came too late for the program is dropped. The one that runs
// next was not meant, and may not have a handler yet.
func (r *runner) end() (told syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = false
	for {
		select {
		case <-r.parent.Passing:
		default:
			return r.ending
		}
	}
}

// called takes in each renewal that was acknowledged, also while the work of a
// term is being stopped.
//
// A late report of another slot does not count: one is led at a time.
//
// It runs on a goroutine of the election's, and does not wait. Renewals count
// while the term is being stopped, since the program may need the time: without
// them the guard would send SIGKILL by an old deadline. The instant that counts
// is when the request left: the others count from when it arrived, which is
// later.
func (r *runner) called(group string, c leader.Call) {
	if at := r.at.Load(); at != nil && at.group != group && at.e.IsLeader() {
		return
	}
	if c.Outcome == store.OK && (c.Kind == "acquire" || c.Kind == "renew") {
		r.parent.Window.Extend(c.Correlation, r.parent.Clock.At(c.Sent)+int64(guard.Trust(r.cfg)))
	}
}

// lead runs the program for one term. It is OnPromote, and the term is released
// when it returns. So each path waits for ctx before it does: to return early
// would leave a leader on whose host nothing runs.
func (r *runner) lead(ctx context.Context, s *candidacy) {
	term, _ := leader.TermFromContext(ctx)
	s.term = term
	if !r.mayLead() {
		<-ctx.Done()
		return
	}
	r.at.Store(s)
	// A RoleManager keeps to one slot in its own process. Two processes of one
	// name would run the program twice on a host that may have room for one.
	if slot := twin(ctx, r.keys, r.cfg.InstanceID, s, r.candidacies); slot != 0 {
		r.say("another process named %q runs the program in slot %d of %s: a host has one at the most (--id gives this one another name)",
			r.cfg.InstanceID, slot, r.c.Group)
		r.finish(app.ExitFailure)
		<-ctx.Done()
		return
	}
	if r.c.Once && !r.first(ctx, term) {
		<-ctx.Done()
		return
	}
	r.say("leading %s in term %d", s.group, term.Number)
	if until := s.e.TrustUntil(); r.parent.Window.End(term.Correlation()) == 0 && !until.IsZero() {
		// The claim's acknowledgement was lost, and a look at the record showed
		// that it was stored.
		r.parent.Window.Extend(term.Correlation(), r.parent.Clock.At(until.Add(-guard.Trust(r.cfg)))+int64(guard.Trust(r.cfg)))
	}
	r.hook(ctx, r.c.OnPromote, roleLeader, term)
	r.hook(ctx, r.c.Label, roleLeader, term)
	for backoff := minBackoff; ; {
		begun := time.Now()
		if !r.once(ctx, term) {
			return
		}
		// A program that ran for longer than the backoff is not one that fails
		// at its start, and is started again soon.
		if time.Since(begun) > backoff {
			backoff = minBackoff
		}
		if !sleep(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// wait reports why nothing runs on this host. It is OnLeaderChange. While this
// host leads a slot, the leaders of other slots are irrelevant, and are not
// printed. Nothing is printed while leader run ends, either: it waits for
// nothing then, though a successor is reported.
func (r *runner) wait(info leader.LeaderInfo) {
	r.mu.Lock()
	r.known[info.Group] = info
	leads := r.leads
	r.mu.Unlock()
	if info.ID != "" && info.ID != r.cfg.InstanceID && !leads && !r.finished.Load() {
		r.say("waiting: %q leads %s in term %d", info.ID, info.Group, info.Term)
	}
	r.compareSlots(info)
}

// lookBeyond compares the slots with the leader of the next slot, which hosts
// with more slots have. It waits for a renewal, because a dead leader may have
// left the record behind. Without the right to read that slot it ends.
func (r *runner) lookBeyond(ctx context.Context) {
	_ = leader.ObserveFuncWithStore(ctx, r.keys, fmt.Sprintf("%s.%d", r.c.Group, r.c.Slots+1), leader.Observer{Renewed: r.compareSlots})
}

// compareSlots warns, once, of a leader that counts other slots: more hosts
// than either expects may run the program.
func (r *runner) compareSlots(info leader.LeaderInfo) {
	theirs := info.Meta[slotsKey]
	if r.c.Slots < 2 || theirs == "" || theirs == strconv.Itoa(r.c.Slots) || r.warned.Swap(true) {
		return
	}
	r.say("warning: %q leads %s with --slots %s, and this host has --slots %d: give all hosts the same", info.ID, info.Group, theirs, r.c.Slots)
}

// once runs the program once, and reports whether it is to be started again.
//
// The cases are ordered by precedence. A program that cannot be run ends leader
// run. A signal to leader run takes precedence over the end of the term. A term
// that has ended needs no notice to the election. Only then does the program's
// own end count, and --on-exit.
func (r *runner) once(ctx context.Context, term leader.Term) bool {
	if !r.begin(ctx) {
		<-ctx.Done()
		return false
	}
	begun := time.Now()
	v := r.runProgram(ctx, term)
	told := r.end()
	if told != 0 && !v.Ended {
		v.Code = guard.ExitSignal + int(told) // there is no status of the program's
	}
	if r.c.Once && !v.Late && (v.Broken || ctx.Err() != nil) {
		// The run is noted, and the others stay away: a second start would be a
		// second run.
		r.say("%s is not started again in this period", r.argv[0])
		r.finish(ownStatus(v))
	}
	switch {
	case v.Err != "" && ctx.Err() == nil && v.Code != 0:
		r.say("%s: %s", r.argv[0], v.Err)
		r.finish(v.Code)
	// Before the end of the term: who sent the signal waits for us to end.
	case told != 0:
		r.finish(v.Code)
	case ctx.Err() != nil:
		return false
	// Nothing has run, so that even --once may try again within the term.
	case v.Late:
		r.say("%s was not started: %s", r.argv[0], v.Err)
		return true // renewals may be faster again
	// The guard stopped the program since no renewal came, or died. The library
	// may still think that it leads. To hand back lets a host lead that works.
	case v.Broken:
		r.say("the term is handed back")
		r.resign(ctx)
	default:
		if r.c.OnExit == onExitRelease && !r.c.Once && !r.c.Try && time.Since(begun) < r.cfg.TTL {
			r.say("warning: %s ended within a lease, and the next host starts it now. "+
				"Of a job that ends by itself, --once lets one host of all begin one run in a period", r.argv[0])
		}
		return r.afterExit(ctx, v.Code)
	}
	<-ctx.Done()
	return false
}

// resign has the term end. The callback that calls it does not wait: the record
// is kept until that returns, and a term that is over needs no end.
func (r *runner) resign(ctx context.Context) { _ = r.at.Load().e.Resign(ctx) }

// ownStatus is the exit status after a run whose term ended before it did.
func ownStatus(v guard.Verdict) int {
	if v.Ended {
		return v.Code
	}
	return app.ExitFailure
}

// afterExit applies --on-exit, and reports whether the program is to be started
// again.
func (r *runner) afterExit(ctx context.Context, code int) bool {
	r.say("%s ended with status %d", r.argv[0], code)
	switch r.c.OnExit {
	case onExitRestart:
		return true
	case onExitCampaign:
		r.resign(ctx)
	case onExitRelease:
		r.finish(code)
	default: // onExitStay
	}
	<-ctx.Done()
	return false
}

// runProgram runs the program once, in ctx, the term's. It returns when nothing
// is left of it, which may be long after ctx is done: the caller may release
// the term then.
func (r *runner) runProgram(ctx context.Context, term leader.Term) guard.Verdict {
	own := r.told(term)
	if r.c.ProofKey != "" {
		file, remove, err := r.prove(ctx)
		if err != nil {
			// No proof was to be had since the term is over: the next one may
			// have it.
			if errors.Is(err, leader.ErrNotLeader) {
				return guard.Verdict{Err: err.Error(), Late: true}
			}
			return guard.Verdict{Code: guard.ExitCannotRun, Err: err.Error()}
		}
		defer remove()
		own = append(own, "LEADER_PROOF_FILE="+file)
	}
	c, err := r.parent.Start(term.Correlation(), guard.Order{Path: r.path, Argv: r.argv, Env: r.environ(own)})
	if err != nil {
		return guard.Verdict{Code: guard.ExitCannotRun, Err: err.Error()}
	}
	return c.Follow(ctx)
}

// group is the one in which it leads, or did last.
func (r *runner) group() string {
	if at := r.at.Load(); at != nil {
		return at.group
	}
	return r.c.Group
}

// told returns the variables of the program's term, without the variables of
// the host.
func (r *runner) told(term leader.Term) []string {
	at := r.at.Load()
	env := []string{
		"LEADER_GROUP=" + at.group, "LEADER_BUCKET=" + r.cfg.Bucket, "LEADER_ID=" + r.cfg.InstanceID,
		"LEADER_TERM=" + strconv.FormatUint(term.Number, 10), "LEADER_TOKEN=" + term.Token,
	}
	if at.slot > 0 {
		env = append(env, "LEADER_SLOT="+strconv.Itoa(at.slot), "LEADER_SLOTS="+strconv.Itoa(r.c.Slots))
	}
	return env
}

// environ returns the environment of the programs that a candidate starts, with
// the variables of a term in place of an outer leader run's variables. Nothing
// below it does that: syscall.ForkExec passes on a name that is there twice,
// and of two values C and Go take the first. A program would fence with the
// number of the outer group's term. Variables that are not set now are removed,
// too: a term without a slot must not show the outer slot.
func (r *runner) environ(told []string) []string {
	names := map[string]bool{
		"LEADER_TERM": true, "LEADER_TOKEN": true, "LEADER_SLOT": true, "LEADER_SLOTS": true, "LEADER_PROOF_FILE": true, "LEADER_ROLE": true,
	}
	for _, variable := range told {
		name, _, _ := strings.Cut(variable, "=")
		names[name] = true
	}
	env := slices.DeleteFunc(r.c.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return names[name]
	})
	return append(env, told...)
}

// left follows the end of a term and of its program. It is OnDemote: the
// election calls it when lead has returned, so that the hooks find the program
// gone, and releases the record after it.
func (r *runner) left(s *candidacy) {
	r.say("leading no more: %s", s.e.Status().Reason)
	// Last, so that giveUp does not end leader run amid the hooks.
	defer func() {
		r.mu.Lock()
		r.leads = false
		late := r.late
		r.mu.Unlock()
		// giveUp has refused the end of the period while the term lasted. A
		// host that has started the program has its exit status already.
		if late && !r.finished.Load() {
			r.giveUp(exitTaken, periodOver)
		}
	}()
	// The term's context is done, and would end the hook at once.
	r.hook(context.Background(), r.c.OnDemote, roleFollower, s.term)
	r.hook(context.Background(), r.c.Label, roleFollower, leader.Term{})
}

// say prints for the user. Standard output is the program's alone, so that a
// pipe gets nothing else. Text of others must not steer the terminal.
func (r *runner) say(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf("leader: "+format+"\n", app.Worded(args)...)) {
		fmt.Fprintln(r.err, output.Printable(strings.TrimSuffix(line, "\n")))
	}
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
