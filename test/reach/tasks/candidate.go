package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/grpc/grpctasks"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A promotion is a candidate's report to its parent; Term 0 means that it is
// ready.
type promotion struct {
	ID   string    `json:"id"`
	Term uint64    `json:"term"`
	At   time.Time `json:"at"`
	// Finished: as many tasks as the options name have ended, and the store has
	// acknowledged their records.
	Finished bool `json:"finished,omitempty"`
}

// beCandidate is the process of a candidate, until standard input ends.
func beCandidate(ctx context.Context, id, url string, o options, stdin io.Reader, stdout io.Writer) error {
	nc, bucket, err := open(ctx, url, o)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer bucket.Close()
	out := harness.NewSpeaker(stdout)
	var hub tasks.Hub = tasks.NewNATS(nc)
	address := ""
	if o.GRPC {
		srv, at, stop, err := serveGRPC(ctx)
		if err != nil {
			return err
		}
		defer stop()
		hub, address = srv, at
	}
	finished := 0
	hooks := tasks.Hooks{Recorded: func(r tasks.Recorded) {
		if r.State != tasks.Done && r.State != tasks.Failed {
			return
		}
		finished++
		if finished == o.Finish {
			out.Say(promotion{ID: id, Finished: true, At: time.Now()})
		}
	}}
	d := tasks.NewDispatcher(bucket, tasks.DispatcherOptions{Group: group, Lease: workerLease, Logger: logger(o), Hooks: hooks}, hub)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _, _ = io.Copy(io.Discard, stdin); cancel() }()
	out.Say(promotion{ID: id, At: time.Now()})
	return leader.Run(ctx, nc, leader.ElectionConfig{
		Bucket: elections, Group: group, InstanceID: id, TTL: o.TTL, HeartbeatInterval: o.TTL / 5, Address: address, AcquireGrace: leader.GraceOff,
	}, func(ctx context.Context, term leader.Term) error {
		out.Say(promotion{ID: id, Term: term.Number, At: time.Now()})
		return d.Lead(ctx, term)
	})
}

// open connects, and opens the store of the tasks.
func open(ctx context.Context, url string, o options) (*nats.Conn, *tasks.Bucket, error) {
	nc, err := nats.Connect(url, nats.Timeout(harness.Patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	b, err := tasks.OpenBucket(ctx, js, tasks.BucketConfig{Bucket: work, Group: group, Create: o.Create, Replicas: o.Servers})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, b, nil
}

// A happening is a line of a worker's own log.
type happening struct {
	Worker  string    `json:"w"`
	Run     int       `json:"r"` // of its process
	What    string    `json:"e"` // ready, accepted, returned, kept, stale, again, refused, violation
	ID      string    `json:"id,omitempty"`
	Attempt int       `json:"a,omitempty"`
	Term    uint64    `json:"t,omitempty"`
	At      time.Time `json:"at"`
}

// beWorkers is a process of workers, until standard input ends.
func beWorkers(ctx context.Context, names []string, url string, o options, stdin io.Reader, stdout io.Writer) error {
	nc, err := nats.Connect(url, nats.Timeout(harness.Patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer nc.Close()
	out := harness.NewSpeaker(stdout)
	var link tasks.Link = tasks.NewNATS(nc)
	if o.GRPC {
		conn, err := reachLeader(nc, o.Address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		link = grpctasks.NewLink(conn, grpctasks.LinkOptions{Silence: workerLease, Logger: logger(o)})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _, _ = io.Copy(io.Discard, stdin); cancel() }()
	var all sync.WaitGroup
	errs := make([]error, len(names))
	for i, name := range names {
		j := newJournal(name, out, o.Quiet)
		w := tasks.NewWorker(j.between(link), j.handle(o.Takes), tasks.WorkerOptions{
			Group: group, Name: name, Capacity: o.Capacity, Lease: workerLease, Labels: []string{"l" + name}, Accepted: j.accepted, Logger: logger(o),
		})
		all.Go(func() { errs[i] = w.Run(ctx) })
	}
	out.Say(happening{What: "ready", At: time.Now()})
	all.Wait()
	return errors.Join(errs...)
}
