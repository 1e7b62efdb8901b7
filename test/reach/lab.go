package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// ttl is the length of the lease.
const ttl = time.Second

// options select what is measured.
type options struct {
	http  bool
	quick bool
	// only are the sections that are measured. Empty: all.
	only []string
}

func (o options) protocol() protocol {
	if o.http {
		return overHTTP
	}
	return overGRPC
}

// A lab is three instances and a client that calls the leader all the time.
type lab struct {
	harness.Run

	over     protocol
	servers  harness.NATS
	program  natslab.Program // of the proxies
	journals string          // directory
	made     int
	events   chan event
	readers  sync.WaitGroup
	runs     map[string]*member
	leader   string
	through  bool // whether instances that join reach NATS by a proxy
	load     load
	seen     atomic.Pointer[string] // who leads as the client has heard it last
	faults   []fault
	held     []*pending

	mu         sync.Mutex
	promotions []promotion
}

// A member is an instance that runs.
type member struct {
	*harness.Child

	id, address string
	proxy       *natslab.Relay // between it and NATS, or nil
}

func measure(ctx context.Context, o options, progress io.Writer) (f *figures, err error) {
	ctx, cancel := context.WithCancel(ctx) // which kills what still runs
	defer cancel()
	l := &lab{
		Run:  harness.Run{Ctx: ctx, Quick: o.quick, Progress: progress, Look: 2 * time.Millisecond},
		over: o.protocol(), events: make(chan event, 1024), runs: map[string]*member{},
	}
	defer l.program.Close()
	if l.journals, err = os.MkdirTemp("", "leader-reach-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.journals)) }()
	f = &figures{machine: harness.ThisMachine(), http: o.http, refused: map[string]int{}}
	process, err := harness.StartChild(ctx, "-serve")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, process.End()) }()
	if err := process.Hear(&l.servers); err != nil {
		return nil, err
	}
	nc, err := l.servers.Connect()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	defer l.end()
	if err := l.prepare(nc); err != nil {
		return nil, err
	}
	if l.load.client, err = l.over.follow(l.watching(nc)); err != nil {
		return nil, err
	}
	defer l.load.client.Close()
	l.load.repeatable, l.load.rate = l.over.repeatable, l.N(rate, quickRate)
	f.rate = l.load.rate
	stop := l.load.start(ctx)
	err = l.rounds(f, o.only)
	if err != nil {
		l.end() // an instance that is frozen would keep its calls
	}
	stop()
	l.end()
	return f, errors.Join(err, l.judge(f))
}

// prepare makes the bucket and starts the instances.
func (l *lab) prepare(nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if err := natsstore.EnsureBucket(l.Ctx, js, natsstore.BucketConfig{Bucket: bucket, Replicas: 1}); err != nil {
		return err
	}
	return l.fill()
}

// fill starts three instances.
func (l *lab) fill() error {
	for len(l.runs) < 3 {
		if err := l.join(); err != nil {
			return err
		}
	}
	return nil
}

// watching observes the leader for the client, and notes what the client has
// taken in.
func (l *lab) watching(nc *nats.Conn) observe {
	return func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
		return func(yield func(leader.LeaderInfo, error) bool) {
			for info, err := range leader.Observe(ctx, nc, bucket, group) {
				if !yield(info, err) {
					return
				}
				if err == nil {
					l.seen.Store(&info.ID)
				}
			}
		}
	}
}

// clientLeaves waits until the client has seen another leader than the given
// one, and returns an instant after that.
func (l *lab) clientLeaves(id string) (time.Time, error) {
	err := l.Await("the client to see another leader than "+id, nil, func() bool {
		seen := l.seen.Load()
		return seen != nil && *seen != "" && *seen != id
	})
	return time.Now(), err
}

// settle is how long a change of leader is watched beyond its end, and how long
// a time without one.
const settle = 300 * time.Millisecond

// quiet starts three instances, lets time pass, and returns how long the
// slowest call took in it: the cost of the machine alone.
func (l *lab) quiet() (time.Duration, error) {
	if err := l.fill(); err != nil {
		return 0, err
	}
	if err := l.Pause(settle); err != nil {
		return 0, err
	}
	begun := time.Now()
	err := l.Pause(settle)
	return l.load.longest(begun), err
}

// join adds an instance.
func (l *lab) join() error {
	l.made++
	m := &member{id: fmt.Sprintf("i%d", l.made)}
	url := l.servers.URL()
	if l.through {
		err := l.program.Run(func() error {
			m.proxy = natslab.NewRelay(&l.program, strings.TrimPrefix(url, "nats://"))
			return nil
		})
		if err != nil {
			return err
		}
		url = m.proxy.URL()
	}
	var err error
	args := append([]string{"-instance", m.id, "-url", url, "-journals", l.journals}, l.over.args...)
	if m.Child, err = harness.StartChild(l.Ctx, args...); err != nil {
		return err
	}
	l.runs[m.id] = m
	l.readers.Go(func() { l.listen(m.Child) })
	e, err := l.hear("instance "+m.id, func(e event) bool { return e.Ready && e.ID == m.id })
	m.address = e.Address
	return err
}

// listen reads the reports of an instance, until it has ended.
func (l *lab) listen(c *harness.Child) {
	for {
		var e event
		if c.Hear(&e) != nil {
			return
		}
		if e.Promotion != nil {
			l.mu.Lock()
			l.promotions = append(l.promotions, *e.Promotion)
			l.mu.Unlock()
		}
		select {
		case l.events <- e:
		case <-l.Ctx.Done():
		}
	}
}

// hear waits for an event, and notes who leads.
func (l *lab) hear(what string, wanted func(event) bool) (event, error) {
	e, _, err := l.hearUnless(nil, what, wanted)
	return e, err
}

// hearUnless is hear that gives up when a channel is closed, and reports
// whether there was the event.
func (l *lab) hearUnless(over <-chan struct{}, what string, wanted func(event) bool) (e event, ok bool, err error) {
	limit := time.NewTimer(harness.Patience)
	defer limit.Stop()
	for {
		select {
		case e := <-l.events:
			if e.Promotion != nil {
				l.leader = e.ID
			}
			if wanted(e) {
				return e, true, nil
			}
		case <-over:
			return event{}, false, nil
		case <-limit.C:
			return event{}, false, fmt.Errorf("waiting for %s: %w", what, harness.ErrPatience)
		case <-l.Ctx.Done():
			return event{}, false, l.Ctx.Err()
		}
	}
}

// current returns the instance that leads, according to the reports of all.
func (l *lab) current() (*member, error) {
	for {
		select {
		case e := <-l.events:
			if e.Promotion != nil {
				l.leader = e.ID
			}
			continue
		default:
		}
		if m := l.runs[l.leader]; m != nil {
			return m, nil
		}
		if _, err := l.hear("a leader", func(e event) bool { return e.Promotion != nil && l.runs[e.ID] != nil }); err != nil {
			return nil, err
		}
	}
}

// end kills the instances that are left, and returns when all their reports
// were read.
func (l *lab) end() {
	for id, m := range l.runs {
		m.Kill()
		delete(l.runs, id)
	}
	l.readers.Wait()
}

// A pending call is one that the lab makes in addition to the load.
type pending struct {
	*call

	to     string // the instance that it was meant for
	done   chan struct{}
	giveUp context.CancelFunc
}

// pend makes a call.
func (l *lab) pend(by client, c *call, to string) *pending {
	ctx, cancel := context.WithTimeout(l.Ctx, harness.Patience)
	p := &pending{c, to, make(chan struct{}), cancel}
	c.began = time.Now()
	go func() {
		defer close(p.done)
		defer cancel()
		by.Call(ctx, c)
	}()
	return p
}

// hold has the leader's handlers keep a call of each kind, and returns the
// leader: what the client repeats where its connection breaks, and what it does
// not.
func (l *lab) hold() (*member, error) {
	for {
		m, err := l.current()
		if err != nil {
			return nil, err
		}
		held, kept, err := l.holdAt(m)
		if err != nil {
			return nil, err
		}
		if kept && l.leader == m.id {
			l.held = append(l.held, held...)
			return m, nil
		}
		for _, p := range held {
			p.giveUp()
		}
	}
}

// holdAt is hold at an instance. It reports whether that has kept all of the
// calls; otherwise another leads since.
func (l *lab) holdAt(m *member) (held []*pending, kept bool, err error) {
	wanted := map[bool]bool{true: true, false: !l.over.repeatable(1)}
	for wanted[true] || wanted[false] {
		c := l.load.next()
		if !wanted[c.repeatable] {
			continue
		}
		c.hold = m.id
		p := l.pend(l.load.client, c, m.id)
		held = append(held, p)
		_, kept, err := l.hearUnless(p.done, "a call that is kept", func(e event) bool { return e.Held == c.number })
		if err != nil || !kept {
			return held, false, err
		}
		// A request on a new connection is never repeated: the next one may
		// have a reused one.
		wanted[c.repeatable] = c.repeatable && c.fresh.Load()
	}
	return held, true, nil
}

// pin returns a client of the leader's address, by which it has answered.
func (l *lab) pin() (m *member, by client, err error) {
	for {
		if m, err = l.current(); err != nil {
			return nil, nil, err
		}
		if by, err = l.over.pin(m.address); err != nil {
			return nil, nil, err
		}
		p := l.pend(by, l.load.next(), m.id)
		<-p.done
		if p.err == nil {
			return m, by, nil
		}
		by.Close()
		if !p.refused {
			return nil, nil, fmt.Errorf("calling %s: %w", m.id, p.err)
		}
	}
}

// A fault is what a leader has suffered.
type fault struct {
	kind        string
	id, address string
	succeeded   int64     // when its successor led, for certain
	seen        time.Time // when the client had seen that
	dead        time.Time // when it was dead for certain, if it was killed
}

func (l *lab) suffered(address string) *fault {
	if i := slices.IndexFunc(l.faults, func(f fault) bool { return f.address == address }); i >= 0 {
		return &l.faults[i]
	}
	return nil
}
