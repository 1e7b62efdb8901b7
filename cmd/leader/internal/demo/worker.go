package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/rollcall"
)

// A WorkerCommand is the process of one candidate of the demo.
type WorkerCommand struct{}

// Run takes part in the election until it is ordered to stop, or its input
// ends. Whatever ended it, its reports are written before it exits.
func (WorkerCommand) Run(ctx context.Context, std app.Streams, kit app.Kit) error {
	in := json.NewDecoder(std.In)
	var s spec
	if err := in.Decode(&s); err != nil {
		return fmt.Errorf("demo-worker is for leader demo to start, and wants a line of JSON: %w", err)
	}
	w := &worker{spec: s, kit: kit, out: newOutbox(), net: newNetwork(s.TTL)}
	// With room: the demo may be gone long before the worker has noticed.
	written := make(chan error, 1)
	go func() { written <- w.out.write(std.Out) }()
	err := w.run(ctx, in)
	w.out.close()
	return errors.Join(err, <-written)
}

// A worker is a candidate that reports what it does. The hooks, the orders and
// the questions to IsLeader run on goroutines of their own, and share only what
// may be used concurrently.
type worker struct {
	spec spec
	kit  app.Kit
	out  *outbox
	net  *network
	nc   *nats.Conn
	e    leader.Election
	seen atomic.Pointer[leader.LeaderInfo]
}

// run takes part. Orders are obeyed from the beginning, so that a worker that
// waits for its store or for its turn can be stopped; only a leader is ordered
// to resign. The election is not tied to ctx, whose end would stop it before the
// order to release.
func (w *worker) run(ctx context.Context, in *json.Decoder) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go w.obey(ctx, stop, in)
	end, err := w.open(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // it took no part yet
	case err != nil:
		return err
	}
	defer end()
	// Kept for the status: what a follower has seen of the leader's term.
	w.e.OnLeaderChange(func(info leader.LeaderInfo) { w.seen.Store(&info) })
	go w.watch(ctx)
	if sleep(ctx, w.spec.Delay) {
		if err := w.e.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), errAbandoned) {
		return nil
	}
	return w.e.StopWithContext(context.Background(), leader.StopOptions{
		DeleteKey: true, WaitForDemote: true, Timeout: stopPatience,
	})
}

// connect connects to NATS through the network that can be cut. A dialer that
// the options name, for a proxy, is used behind it. It does not wait for the
// server: it may be the one that the demo is restarting.
func (w *worker) connect(s natsconn.Settings) (err error) {
	var base nats.Options
	// Options are functions, and only applying them shows what they set.
	for _, opt := range s.Options {
		if err := opt(&base); err != nil {
			return err
		}
	}
	if base.CustomDialer != nil {
		w.net.through = base.CustomDialer
	}
	w.nc, err = s.Connect("leader demo "+w.spec.ID, nats.SetCustomDialer(w.net), nats.RetryOnFailedConnect(true))
	return err
}

// open makes the election, and what it needs until end is called.
func (w *worker) open(ctx context.Context) (end func(), err error) {
	if w.spec.Store != "" {
		return w.openElsewhere(ctx)
	}
	settings, err := w.kit.Settings(w.spec.Conn)
	if err != nil {
		return nil, err
	}
	if err := w.connect(settings); err != nil {
		return nil, err
	}
	cfg := w.config()
	cfg.JetStreamDomain = settings.Domain
	cfg.Hooks = leader.JoinHooks(cfg.Hooks, rollcall.Hooks(w.nc))
	if w.e, err = leader.NewElection(w.nc, cfg); err != nil {
		w.nc.Close()
		return nil, err
	}
	return w.nc.Close, nil
}

// openPatience is how long an attempt to open a store other than NATS may take.
const openPatience = 10 * time.Second

// openElsewhere opens a store other than NATS. The store's client makes its own
// connections, so that the network is cut between the election and the client.
// It waits for a store that is away, which may be what the demo does to it.
func (w *worker) openElsewhere(ctx context.Context) (end func(), err error) {
	target := app.Target{Store: w.spec.Store, Kit: w.kit, Timeout: openPatience}
	session, err := target.Await(ctx, "demo "+w.spec.ID)
	for app.MayPass(err) && ctx.Err() == nil {
		session, err = target.Await(ctx, "demo "+w.spec.ID)
	}
	if err != nil {
		return nil, err
	}
	if w.e, err = leader.NewElectionWithStore(&remote{session.Elsewhere(), w.net}, w.config()); err != nil {
		session.Close()
		return nil, err
	}
	return session.Close, nil
}

// config is the candidate's configuration. All hooks end in the outbox, which
// never waits.
func (w *worker) config() leader.ElectionConfig {
	grace := leader.GraceAuto
	if w.spec.Fresh {
		grace = leader.GraceOff // no leader can be left of a bucket before this one
	}
	return leader.ElectionConfig{
		Bucket: w.spec.Bucket, Group: w.spec.Group, InstanceID: w.spec.ID,
		TTL: w.spec.TTL, HeartbeatInterval: w.spec.Heartbeat,
		BucketAutoCreate: true, DeleteOnStop: true, AcquireGrace: grace,
		Hooks: leader.Hooks{Transition: w.onTransition, Note: w.onNote},
	}
}

// onTransition reports a change of state, at the instant of the library's own.
func (w *worker) onTransition(t leader.Transition) {
	w.out.post(report{
		Kind: reportTransition, At: mono(t.At), From: t.From, To: t.To, Reason: string(t.Reason),
		Term: t.Term.Number, Leader: t.LeaderID,
	})
}

// onNote reports what the library notes for people.
func (w *worker) onNote(n leader.Note) {
	w.out.post(report{Kind: reportNote, At: mono(n.At), Note: n.Kind, Text: n.Text})
}

// errAbandoned: the demo is gone, and nothing reads the reports. The process
// ends without a release, as if it had been killed.
var errAbandoned = errors.New("the demo is gone")

// obey carries out orders until the input ends. The end of the input is the end
// of the demo, however that came, and no worker outlives it.
func (w *worker) obey(ctx context.Context, stop context.CancelCauseFunc, in *json.Decoder) {
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			stop(errAbandoned)
			return
		}
		switch o {
		case orderStop:
			stop(nil)
		case orderCut:
			w.net.cut()
		case orderHeal:
			w.net.heal()
		case orderResign:
			go w.resign(ctx) // the order to heal may be what it waits for
		}
	}
}

// resign reports a failure alone: its effect is a transition.
func (w *worker) resign(ctx context.Context) {
	if err := w.e.Resign(ctx); err != nil {
		w.out.post(report{Kind: reportFailed, At: monoNow(), Text: err.Error()})
	}
}

// The worker's rhythms.
const (
	askEvery = 2 * time.Millisecond // IsLeader
	// A process that did not run for so long was frozen, or its machine is very
	// busy.
	stallAfter = 700 * time.Millisecond
)

// watch asks IsLeader all the time and reports the answers, until ctx is done.
//
// It reports in batches: a report for each answer would be 500 a second of each
// worker. An answer is at most tellEvery late, which is what the death of a
// leader can hide.
func (w *worker) watch(ctx context.Context) {
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	a := asker{e: w.e, out: w.out}
	last := monoNow()
	var told, shown int64
	for {
		select {
		case <-ask.C:
		case <-ctx.Done():
			a.tell()
			return
		}
		// Before anything else: after a freeze, the first answer must not be a
		// yes. An answer to an earlier question may be.
		before := monoNow()
		leading := a.ask()
		now := monoNow()
		if time.Duration(now-before) > stallAfter {
			leading = a.ask()
		}
		if gap := time.Duration(now - last); gap > stallAfter {
			w.out.post(report{Kind: reportWoke, At: now, Gap: gap, Leading: leading})
		}
		if now-told >= int64(tellEvery) {
			told = now
			a.tell()
		}
		if now-shown >= int64(statusEvery) {
			shown = now
			w.out.post(report{Kind: reportStatus, At: now, Status: w.status()})
		}
		last = now
	}
}

// An asker asks IsLeader and keeps the answers until they are reported.
type asker struct {
	e    leader.Election
	out  *outbox
	next samples
}

// ask asks once, and reports whether the worker leads. The clock is read before
// and after: somewhere between lies the instant that the answer is about. See
// detector.
func (a *asker) ask() bool {
	before := monoNow()
	// The term is read first: if it ends between the two calls, and another
	// begins, the earlier one has still lasted until before, which is all that
	// is claimed of it.
	term := a.e.Term().Number
	leading := a.e.IsLeader()
	after := monoNow()
	a.next.Asked++
	// Any other answer ends the run: what is claimed of the time between two
	// samples holds for one term without a "no".
	if !leading || term == 0 || term != a.next.Term {
		a.turn(leading, term)
	}
	if leading && term != 0 {
		a.next.Led = append(a.next.Led, [2]int64{before, after})
	}
	return leading
}

// turn ends the run of yes that there was, if any, and begins the next.
func (a *asker) turn(leading bool, term uint64) {
	if a.next.Term != 0 {
		a.tell()
		a.next.Term = 0
	}
	if leading && term != 0 {
		a.next.Run++
		a.next.Term = term
	}
}

// tell reports the answers since the last report. The run goes on.
func (a *asker) tell() {
	if a.next.Asked == 0 {
		return
	}
	told := a.next
	a.out.post(report{Kind: reportSamples, At: monoNow(), Samples: &told})
	// The slice is not used again: the outbox has it.
	a.next = samples{Run: told.Run, Term: told.Term}
}

// status is what this worker knows now, with its instants on the machine's
// clock. A follower's term is the one that it has heard of.
func (w *worker) status() *status {
	st := w.e.Status()
	s := &status{
		State: st.State, Reason: string(st.Reason), Leading: st.IsLeader, Leader: st.LeaderID,
		Seen: st.Term, Conn: st.ConnectionStatus,
	}
	if info := w.seen.Load(); info != nil && s.Seen == 0 {
		s.Seen = info.Term
	}
	if st.IsLeader {
		s.Renewed, s.Until = mono(st.LastHeartbeat), mono(st.TrustUntil)
	}
	return s
}

// mono turns a time of this process into a reading of the machine's clock. A
// process that is held up between its looks at the two clocks is off by as
// much: so the best of some looks counts.
func mono(t time.Time) int64 {
	const tries, near = 5, int64(50 * time.Microsecond)
	best, off := int64(math.MaxInt64), int64(0)
	for range tries {
		before := monoNow()
		until := int64(time.Until(t))
		width := monoNow() - before
		if width < best {
			best, off = width, before+width/2+until
		}
		if best <= near {
			break
		}
	}
	return off
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
