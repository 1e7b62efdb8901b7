package advisory

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// Options are the settings of a Publisher. The zero value is a good one.
type Options struct {
	// Events, if not empty, are the transitions to publish. By default all are;
	// EventCampaigning and EventFollowing come from every candidate at every
	// change of leaders.
	Events []leader.Event
	// Notes publishes also the notes that are worth an operator's attention:
	// warnings, renewals whose acknowledgement was lost, overruns of callbacks,
	// panics and the like. Their event is EventNote.
	Notes bool
	// Bucket is used in the subjects of elections whose configuration has none,
	// on stores other than NATS. Default: "_".
	Bucket string
	// Queue is how many advisories of one election may wait for the connection;
	// then the oldest is dropped. Default: 256.
	Queue int
	// FlushTimeout is how long an election that has stopped, and has released
	// its record, waits until its last advisories have been sent. Default: 1
	// second.
	FlushTimeout time.Duration
}

// A Publisher publishes the advisories of any number of elections.
type Publisher struct {
	nc      *nats.Conn
	opts    Options
	dropped atomic.Uint64
}

// New returns a Publisher. The connection stays the caller's, and need not be
// the one of the elections; with a separate connection a slow server for
// advisories does not affect the leases. Without a connection every advisory is
// dropped.
func New(nc *nats.Conn, opts Options) *Publisher {
	if opts.Queue <= 0 {
		opts.Queue = 256
	}
	if opts.FlushTimeout <= 0 {
		opts.FlushTimeout = time.Second
	}
	return &Publisher{nc: nc, opts: opts}
}

// Hooks is New(nc, opts).Hooks(), for those who do not ask how many were
// dropped.
func Hooks(nc *nats.Conn, opts Options) leader.Hooks { return New(nc, opts).Hooks() }

// Hooks returns the hooks for the configuration of elections: see
// leader.JoinHooks. They never wait for the connection. For each election one
// goroutine publishes, from its start to its stop.
func (p *Publisher) Hooks() leader.Hooks {
	return leader.Hooks{PerElection: p.follow}
}

// Dropped returns how many advisories were not sent.
func (p *Publisher) Dropped() uint64 { return p.dropped.Load() }

// follow returns the hooks of one election, and starts its goroutine.
func (p *Publisher) follow(_ leader.Election, cfg leader.ElectionConfig) leader.Hooks {
	if cfg.Bucket == "" {
		cfg.Bucket = p.opts.Bucket
	}
	f := &feed{
		p: p, run: rand.Text(), bucket: cfg.Bucket, group: cfg.Group, instance: cfg.InstanceID,
		queue: make(chan Advisory, p.opts.Queue), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go f.live()
	hooks := leader.Hooks{Transition: f.transition}
	if p.opts.Notes {
		hooks.Note = f.note
	}
	return hooks
}

// A feed is the advisories of one election. Its hooks are called by one
// goroutine, the election's own.
type feed struct {
	p                            *Publisher
	run, bucket, group, instance string
	seq                          uint64
	queue                        chan Advisory
	stop, done                   chan struct{}
	ended                        bool
}

func (f *feed) transition(t leader.Transition) {
	if want := f.p.opts.Events; len(want) == 0 || slices.Contains(want, t.Event) {
		f.put(ofTransition(t))
	}
	if t.Event == leader.EventStopped {
		f.end()
	}
}

// end lets the goroutine finish. The record is released by now: nobody waits
// for this candidate any more.
func (f *feed) end() {
	f.ended = true
	close(f.stop)
	patience := time.NewTimer(f.p.opts.FlushTimeout)
	defer patience.Stop()
	select {
	case <-f.done:
	case <-patience.C:
	}
}

func (f *feed) note(n leader.Note) {
	switch n.Kind {
	case leader.NoteWarning, leader.NoteResolved, leader.NoteRegressed, leader.NoteOverrun, leader.NoteGaveUp, leader.NoteNotReady,
		leader.NotePanic, leader.NoteBadToken, leader.NoteMalformed, leader.NoteBarred, leader.NoteUnbarred:
		f.put(ofNote(n))
	}
}

// put queues an advisory, in place of the oldest if need be: what happened last
// is what a reader wants to know.
func (f *feed) put(a Advisory) {
	f.seq++
	a.Version, a.Seq, a.ID = Version, f.seq, f.run+"-"+strconv.FormatUint(f.seq, 10)
	a.Bucket, a.Group, a.Instance = f.bucket, f.group, f.instance
	for !f.ended {
		select {
		case f.queue <- a:
			return
		default:
		}
		select {
		case <-f.queue:
			f.p.dropped.Add(1)
		default: // the goroutine was faster
		}
	}
	f.p.dropped.Add(1)
}

// live is the goroutine. A panic drops one advisory, and the rest are published
// all the same.
func (f *feed) live() {
	defer close(f.done)
	for !shield.Call(f.publish, func(any, []byte) { f.p.dropped.Add(1) }) {
	}
}

// publish sends what is queued until the election has stopped and the queue is
// empty.
func (f *feed) publish() {
	for {
		select {
		case a := <-f.queue:
			f.send(a)
		case <-f.stop:
			f.flush()
			return
		}
	}
}

// flush sends what is left, and waits until the server has it: the program may
// end next.
func (f *feed) flush() {
	for {
		select {
		case a := <-f.queue:
			f.send(a)
		default:
			if nc := f.p.nc; nc != nil && nc.IsConnected() {
				// An error has no receiver any more.
				shield.Call(func() { _ = nc.FlushTimeout(f.p.opts.FlushTimeout) }, func(any, []byte) {})
			}
			return
		}
	}
}

func (f *feed) send(a Advisory) {
	faults.Point("advisory")
	m := nats.NewMsg(a.subject())
	m.Header.Set(nats.MsgIdHdr, a.ID)
	data, err := json.Marshal(a)
	m.Data = data
	if err != nil || !f.connected() || f.p.nc.PublishMsg(m) != nil {
		f.p.dropped.Add(1)
	}
}

// connected waits for the connection, and reports whether it may be used. The
// connection may have no buffer that kept anything. An election that has
// stopped does not wait.
func (f *feed) connected() bool {
	nc := f.p.nc
	if nc == nil {
		return false
	}
	if nc.IsConnected() {
		return true
	}
	changes := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(changes)
	for !nc.IsConnected() && !nc.IsClosed() {
		select {
		case <-changes:
		case <-f.stop:
			// The connection's own buffer, if it has one, is now the only hope.
			return !nc.IsClosed()
		}
	}
	return !nc.IsClosed()
}
