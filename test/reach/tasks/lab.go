package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A lab is servers, candidates and workers, each in a separate process.
type lab struct {
	harness.Run

	o       options
	servers harness.NATS
	server  *harness.Child
	nc      *nats.Conn
	bucket  *tasks.Bucket
	made    int

	candidates map[string]*harness.Child
	workers    map[string]*harness.Child // by the first of its names
	readers    sync.WaitGroup            // the goroutines that read the output of processes
	fed        atomic.Bool               // nothing more is submitted

	mu     sync.Mutex
	moved  chan struct{} // has room for one signal
	leads  promotion
	terms  int
	ready  map[string]bool
	ended  time.Time // when a leader reported that all was finished
	events []happening
	known  map[note]bool // of what there are events
}

// A note is the entry for a term in a line of a journal.
type note struct {
	run  int
	what string
	term uint64
}

func newLab(ctx context.Context, o options, progress io.Writer) (l *lab, err error) {
	l = &lab{
		Run: harness.Run{Ctx: ctx, Progress: progress, Look: 5 * time.Millisecond}, o: o, moved: make(chan struct{}, 1),
		candidates: map[string]*harness.Child{}, workers: map[string]*harness.Child{}, ready: map[string]bool{},
		known: map[note]bool{},
	}
	if l.server, err = harness.StartChild(ctx, "-serve", "-servers", fmt.Sprint(o.Servers)); err != nil {
		return nil, err
	}
	if err := l.server.Hear(&l.servers); err != nil {
		return nil, err
	}
	first := o
	first.Create = true
	if l.nc, l.bucket, err = open(ctx, l.servers.URL(), first); err != nil {
		return nil, err
	}
	js, err := jetstream.New(l.nc)
	if err != nil {
		return nil, err
	}
	return l, natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: elections, Replicas: o.Servers})
}

// close ends all processes.
func (l *lab) close() error {
	for _, c := range l.candidates {
		c.Kill()
	}
	for _, c := range l.workers {
		c.Kill()
	}
	l.readers.Wait()
	if l.bucket != nil {
		l.bucket.Close()
	}
	if l.nc != nil {
		l.nc.Close()
	}
	return l.server.End()
}

// candidate starts one.
func (l *lab) candidate() error {
	l.made++
	id := fmt.Sprintf("c%d", l.made)
	c, err := harness.StartChild(l.Ctx, append([]string{"-candidate", id, "-url", l.servers.URL()}, l.o.args()...)...)
	if err != nil {
		return err
	}
	l.candidates[id] = c
	l.readers.Go(func() {
		for {
			var p promotion
			if c.Hear(&p) != nil {
				return // it has ended
			}
			l.mu.Lock()
			l.ready[id] = true
			if p.Term > l.leads.Term {
				l.leads = p
				l.terms++
			}
			if p.Finished {
				l.ended = p.At
			}
			l.mu.Unlock()
			l.signal()
		}
	})
	return l.Await("candidate "+id, l.moved, func() bool { return l.is(id) })
}

func (l *lab) signal() {
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

func (l *lab) is(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready[name]
}

// noted reports whether the journal of a live worker has the entry for a term.
func (l *lab) noted(what string, term uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.workers {
		if l.known[note{c.PID(), what, term}] {
			return true
		}
	}
	return false
}

// leader returns who leads, and since when.
func (l *lab) leader() promotion {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads
}

// allEnded returns when a leader reported that all was finished, and whether it
// has.
func (l *lab) allEnded() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended, !l.ended.IsZero()
}

// succeed waits for a leader of a later term.
func (l *lab) succeed(after uint64) error {
	return l.Await("a leader", l.moved, func() bool { return l.leader().Term > after })
}

// team starts a process with workers.
func (l *lab) team(names ...string) error {
	c, err := harness.StartChild(l.Ctx, append([]string{"-workers", strings.Join(names, ","), "-url", l.servers.URL()}, l.o.args()...)...)
	if err != nil {
		return err
	}
	key := names[0]
	l.workers[key] = c
	l.mu.Lock()
	l.ready[key] = false
	l.mu.Unlock()
	l.readers.Go(func() {
		for {
			var h happening
			if c.Hear(&h) != nil {
				return // it has ended
			}
			l.mu.Lock()
			l.ready[key] = l.ready[key] || h.What == "ready"
			if h.What != "ready" {
				l.events = append(l.events, h)
				l.known[note{h.Run, h.What, h.Term}] = true
			}
			l.mu.Unlock()
			l.signal()
		}
	})
	return l.Await("workers "+key, l.moved, func() bool { return l.is(key) })
}

// submit stores tasks, many at a time.
func (l *lab) submit(from, to int, spec func(i int) tasks.Spec) error {
	return harness.Each(to-from, submitters, func(i int) error {
		s := spec(from + i)
		ctx, cancel := context.WithTimeout(l.Ctx, harness.Patience)
		defer cancel()
		_, err := tasks.Submit(ctx, l.bucket, s)
		return err
	})
}

// submitters is how many tasks are submitted at once.
const submitters = 512

// follow counts the tasks that the store reports as finished, until ctx ends.
func (l *lab) follow(ctx context.Context, finished func(id string, s tasks.State)) error {
	err := l.bucket.Watch(ctx, tasks.Watch{Present: func() {}, Deliver: func(e tasks.Entry) {
		if e.ID != "" && e.Record.State.Finished() {
			finished(e.ID, e.Record.State)
		}
	}})
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

var errLab = errors.New("the lab")
