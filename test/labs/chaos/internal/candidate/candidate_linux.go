package candidate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
)

const (
	// perConnection is how many candidates share a connection.
	perConnection = 50
	// startAgain is the delay before a start that was denied is repeated.
	startAgain = 100 * time.Millisecond
	// stopPatience is how long a process takes at most to stop.
	stopPatience = 30 * time.Second
)

// ErrOrphaned means that the parent process is gone.
var ErrOrphaned = errors.New("candidate: the standard input ended")

// Run is the process. It returns after an order to stop, or with ErrOrphaned.
func Run(ctx context.Context, in io.Reader) error {
	orders := json.NewDecoder(in)
	var spec Spec
	if err := orders.Decode(&spec); err != nil {
		return fmt.Errorf("candidate: it is for the fire lab to start, and wants a line of JSON: %w", err)
	}
	p := &process{spec: spec, clock: newClock(spec.ClockRate)}
	if err := p.prepare(); err != nil {
		return err
	}
	stop := make(chan error, 1+len(p.contenders))
	go p.obey(ctx, orders, stop)
	p.sampled.Go(p.sample)
	for _, s := range p.contenders {
		go func() {
			if err := s.start(ctx); err != nil && !errors.Is(err, leader.ErrStopped) {
				stop <- fmt.Errorf("candidate: start of %s: %w", s.id, err)
			}
		}()
	}
	p.journal.add(history.Event{At: overlap.Now(), Kind: history.EventStarted})
	if err := <-stop; err != nil {
		return err
	}
	return p.leave(ctx)
}

// A process is a number of candidates.
type process struct {
	spec       Spec
	clock      clock
	conns      []*nats.Conn
	closers    []func() // of the stores
	contenders []*contender
	record     *recorder
	journal    *journal
	ledger     *ledger
	sick       atomic.Bool
	over       atomic.Bool // the samples are complete
	sampled    sync.WaitGroup
}

// A contender is one candidate of a process.
type contender struct {
	who int
	id  string
	p   *process
	e   leader.Election
	// term is the term whose work runs, and ctx its context.
	term atomic.Uint64
	ctx  atomic.Pointer[termContext]
	// ledBefore is the term that the latest sample found it to lead in, and
	// asked counts samples. Only the sampler touches them.
	ledBefore uint64
	asked     int
	stale     context.CancelFunc // of the writer of the last term; only callbacks touch it
}

// start starts the candidate. While its user lacks a right it tries again, as a
// supervisor restarts a program.
func (s *contender) start(ctx context.Context) error {
	for {
		err := s.e.Start(ctx)
		if !errors.Is(err, nats.ErrPermissionViolation) {
			return err
		}
		select {
		case <-time.After(startAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// health is the health of a process, which the lab sets.
type health struct{ sick *atomic.Bool }

// Check is HealthChecker's.
func (h health) Check(context.Context) bool { return !h.sick.Load() }

type termContext struct {
	context.Context
	term leader.Term
}

func (p *process) prepare() (err error) {
	if p.record, err = newRecorder(p.spec.Samples, len(p.spec.IDs)); err != nil {
		return err
	}
	if p.journal, err = newJournal(p.spec.Events, p.clock); err != nil {
		return err
	}
	if p.ledger, err = newLedger(p.spec); err != nil {
		return err
	}
	var candidate func(leader.ElectionConfig) (leader.Election, error)
	for i, id := range p.spec.IDs {
		if i%perConnection == 0 {
			if candidate, err = p.open(); err != nil {
				return err
			}
		}
		s := &contender{who: i, id: id, p: p}
		if s.e, err = candidate(p.config(s)); err != nil {
			return err
		}
		s.e.OnPromote(s.promoted)
		s.e.OnDemote(s.demoted)
		p.contenders = append(p.contenders, s)
	}
	return nil
}

// open connects to the store, and returns what makes candidates over it.
func (p *process) open() (func(leader.ElectionConfig) (leader.Election, error), error) {
	nc, err := p.connect()
	if err != nil {
		return nil, err
	}
	if len(p.spec.Others) == 0 {
		return func(cfg leader.ElectionConfig) (leader.Election, error) { return leader.NewElection(nc, cfg) }, nil
	}
	q, err := p.quorum(nc)
	return func(cfg leader.ElectionConfig) (leader.Election, error) {
		cfg.Bucket, cfg.BucketAutoCreate = "", false // the members have theirs
		return leader.NewElectionWithStore(q, cfg)
	}, err
}

// quorum returns a store over the servers of nc and the others.
func (p *process) quorum(nc *nats.Conn) (*quorumstore.Store, error) {
	conns := []*nats.Conn{nc}
	for _, url := range p.spec.Others {
		other, err := nats.Connect(url, nats.Name(p.spec.Name), nats.MaxReconnects(-1))
		if err != nil {
			return nil, err
		}
		p.conns = append(p.conns, other)
		conns = append(conns, other)
	}
	var members []quorumstore.Member
	for i, nc := range conns {
		st, err := natsstore.New(nc, p.spec.Bucket, natsstore.Options{Create: &natsstore.BucketConfig{}})
		if err != nil {
			return nil, err
		}
		p.closers = append(p.closers, st.Close)
		members = append(members, quorumstore.Member{Name: fmt.Sprint("m", i), Store: st})
	}
	q, err := quorumstore.New(members, quorumstore.Options{})
	if err == nil {
		p.closers = append(p.closers, func() { _ = q.Close() })
	}
	return q, err
}

// connect returns a connection with the settings of a program that must outlive
// every fault. Its reconnect buffer has the default size, which delivers writes
// long after they were given up.
func (p *process) connect() (*nats.Conn, error) {
	nc, err := nats.Connect(strings.Join(p.spec.URLs, ","),
		nats.Name(p.spec.Name),
		nats.UserInfo(p.spec.User, p.spec.Password),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.Timeout(p.spec.Settings.TTL/2),
		nats.PingInterval(p.spec.Settings.TTL),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreDiscoveredServers(), // they would go round the proxies
		nats.IgnoreAuthErrorAbort(),    // credentials come back
		// The default prints to stderr what the lab provokes.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if err == nil {
		p.conns = append(p.conns, nc)
	}
	return nc, err
}

func (p *process) config(s *contender) leader.ElectionConfig {
	set := p.spec.Settings
	cfg := leader.ElectionConfig{
		Bucket: p.spec.Bucket, Group: p.spec.Group, InstanceID: s.id,
		TTL: set.TTL, HeartbeatInterval: set.Heartbeat, ConnectionTimeout: set.Timeout, DemoteTimeout: p.spec.DemoteTimeout,
		Priority: set.Priority, AllowPriorityTakeover: set.Takeover, MinTenure: set.MinTenure,
		Version: set.Version, VersionPolicy: set.Policy,
		DisconnectGracePeriod: set.DisconnectGrace, Fencing: leader.FencingConfig{ValidationInterval: set.Validation},
		BucketAutoCreate: true, DeleteOnStop: true,
		Hooks: leader.Hooks{Transition: s.transition, Call: s.call, Note: s.note},
	}
	if set.HealthCheck > 0 {
		cfg.HealthChecker, cfg.HealthCheckInterval, cfg.MaxConsecutiveFailures = health{&p.sick}, set.HealthCheck, 2
	}
	if p.spec.CoolDown {
		cfg.AcquireGrace = leader.GraceOn
	}
	return cfg
}

// obey carries out orders until the input ends.
func (p *process) obey(ctx context.Context, orders *json.Decoder, stop chan<- error) {
	for {
		var o Order
		if err := orders.Decode(&o); err != nil {
			stop <- ErrOrphaned
			return
		}
		switch o {
		case Resign:
			for _, s := range p.contenders {
				go func() { _ = s.e.Resign(ctx) }() // who does not lead has nothing to resign
			}
		case Sicken, Heal:
			p.sick.Store(o == Sicken)
		case Vitals:
			v := vitals()
			p.journal.add(history.Event{At: overlap.Now(), Kind: history.EventVitals, Vitals: &v})
		case Stop:
			select {
			case stop <- nil:
			default: // already notified
			}
		}
	}
}

// leave stops all candidates at the same time, and reports what they leave
// behind.
func (p *process) leave(ctx context.Context) error {
	errs := make([]error, len(p.contenders))
	var all sync.WaitGroup
	for i, s := range p.contenders {
		all.Go(func() {
			errs[i] = s.e.StopWithContext(ctx, leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: stopPatience})
		})
	}
	all.Wait()
	event := history.Event{Kind: history.EventStopped}
	if err := errors.Join(errs...); err != nil {
		event.Error = err.Error()
	}
	p.ledger.close()
	for _, end := range slices.Backward(p.closers) {
		end()
	}
	for _, nc := range p.conns {
		nc.Close()
	}
	event.Left = leftovers()
	p.over.Store(true)
	p.sampled.Wait()
	event.At = overlap.Now()
	p.journal.add(event)
	return nil
}

func (s *contender) transition(t leader.Transition) {
	s.p.journal.add(history.Event{
		At: s.p.clock.instant(t.At), Who: s.who, Kind: history.EventTransition,
		To: t.To, Reason: string(t.Reason), Term: t.Term.Number, Correlation: t.Correlation,
	})
}

func (s *contender) call(c leader.Call) {
	if c.Kind != "acquire" && c.Kind != "release" && c.Kind != "offer" && c.Outcome != store.Unknown {
		return // renewals and reads are many, and prove nothing more
	}
	sent := s.p.clock.instant(c.Sent)
	s.p.journal.add(history.Event{
		At: overlap.Now(), Who: s.who, Kind: history.EventCall,
		Call: c.Kind, Sent: sent, Outcome: c.Outcome.String(), Correlation: c.Correlation,
	})
}

func (s *contender) note(n leader.Note) {
	if n.Kind == leader.NoteResolved {
		s.p.journal.add(history.Event{At: overlap.Now(), Who: s.who, Kind: history.EventResolved, Call: n.Call, Correlation: n.Correlation})
	}
}

// promoted is OnPromote: it works until the term ends. Its writer goes on for a
// while longer, as a stale writer.
func (s *contender) promoted(ctx context.Context, _ string) {
	term, _ := leader.TermFromContext(ctx)
	over := ctx.Err() != nil
	s.ctx.Store(&termContext{ctx, term})
	s.term.Store(term.Number)
	s.p.journal.add(history.Event{
		At: overlap.Now(), Who: s.who, Kind: history.EventPromoteBegin,
		Term: term.Number, Correlation: term.Correlation(), Over: over,
	})
	if s.stale != nil {
		s.stale() // of the last term, at the latest now
	}
	s.stale = s.p.ledger.write(term)
	<-ctx.Done()
	s.p.journal.add(history.Event{At: overlap.Now(), Who: s.who, Kind: history.EventPromoteEnd, Term: term.Number})
}

// demoted is OnDemote: the work takes a moment to stop.
func (s *contender) demoted() {
	term := s.term.Load()
	s.p.journal.add(history.Event{At: overlap.Now(), Who: s.who, Kind: history.EventDemoteBegin, Term: term})
	time.Sleep(rand.N(30 * time.Millisecond)) //nolint:forbidigo // this is the work that stops, not a wait for something
	s.term.Store(0)
	s.p.journal.add(history.Event{At: overlap.Now(), Who: s.who, Kind: history.EventDemoteEnd, Term: term})
}
