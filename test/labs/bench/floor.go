package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// An audience is n plain connections that hear of every change of a bucket and
// do nothing. It shows what the server and this machine take for a succession
// whatever the protocol is: a record goes to all, and the write of one of them
// goes to all before it is acknowledged.
type audience struct {
	l       *lab
	bucket  string
	conns   []*nats.Conn
	streams []jetstream.JetStream
	heard   []chan time.Time // one for each; holds what a round makes
}

// floor measures how long it takes from a write of a record until one of n
// plain subscribers has heard of it, has written, and has been acknowledged.
func (l *lab) floor(n, rounds int) (s succession, err error) {
	a := &audience{l: l, conns: make([]*nats.Conn, n), streams: make([]jetstream.JetStream, n), heard: make([]chan time.Time, n)}
	defer a.close()
	if a.bucket, err = l.bucket(l.one); err != nil {
		return s, err
	}
	if err := harness.Each(n, 20, a.seat); err != nil {
		return s, err
	}
	for range rounds {
		heard, took, err := a.round()
		if err != nil {
			return s, err
		}
		s.heard, s.took = append(s.heard, heard), append(s.took, took)
	}
	return s, nil
}

// A succession among plain subscribers: how long it took until the one that
// writes had heard, and until its write was acknowledged.
type succession struct{ heard, took harness.Samples }

func (a *audience) close() {
	for _, nc := range a.conns {
		if nc != nil {
			nc.Close()
		}
	}
}

// seat connects one of the audience. It subscribes to what the bucket
// republishes, as a candidate does.
func (a *audience) seat(i int) (err error) {
	if a.conns[i], err = a.l.one.Connect(); err != nil {
		return err
	}
	if a.streams[i], err = jetstream.New(a.conns[i]); err != nil {
		return err
	}
	heard := make(chan time.Time, 2)
	a.heard[i] = heard
	if _, err := a.conns[i].Subscribe("leader."+a.bucket+".>", func(*nats.Msg) { heard <- time.Now() }); err != nil {
		return err
	}
	return a.conns[i].FlushTimeout(harness.Patience)
}

// round writes a record as large as a candidate's, has one of the audience
// answer it with a write of the same size, and returns how long the two took.
func (a *audience) round() (heard, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(a.l.Ctx, harness.Patience)
	defer cancel()
	record := bytes.Repeat([]byte("x"), 200)
	nominee := rand.IntN(len(a.conns))
	kv, err := a.streams[nominee].KeyValue(ctx, a.bucket)
	if err != nil {
		return 0, 0, err
	}
	writer, err := a.streams[(nominee+1)%len(a.streams)].KeyValue(ctx, a.bucket)
	if err != nil {
		return 0, 0, err
	}
	sent := time.Now()
	revision, err := writer.Put(ctx, "g", record)
	if err != nil {
		return 0, 0, err
	}
	all, err := a.hear(ctx)
	if err != nil {
		return 0, 0, err
	}
	heard = all[nominee].Sub(sent)
	// All have heard of the first write before the second is sent, since a
	// lease lies between them.
	sent = time.Now()
	if _, err := kv.Update(ctx, "g", record, revision); err != nil {
		return 0, 0, err
	}
	took = heard + time.Since(sent)
	_, err = a.hear(ctx)
	return heard, took, err
}

// hear waits until all have heard of a write, and returns when each did.
func (a *audience) hear(ctx context.Context) ([]time.Time, error) {
	at := make([]time.Time, len(a.heard))
	for i, heard := range a.heard {
		select {
		case at[i] = <-heard:
		case <-ctx.Done():
			return nil, fmt.Errorf("a plain subscriber does not hear of a write: %w", ctx.Err())
		}
	}
	return at, nil
}
