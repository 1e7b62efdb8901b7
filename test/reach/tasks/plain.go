package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// writesOfATask is how many compare-and-swaps a task takes: it is submitted,
// assigned and recorded as done.
const writesOfATask = 3

// plain is how many compare-and-swaps the server makes in a second for a client
// that does nothing else: three for each of n keys, one after the other, many
// keys at a time, each as long as the record of a task. No dispatcher that
// stores a task by three of them can be faster than a third of that.
func plain(ctx context.Context, o options, n int, out io.Writer) error {
	l, err := newLab(ctx, o, io.Discard)
	if err != nil {
		return err
	}
	defer func() { _ = l.close() }()
	js, err := jetstream.New(l.nc, jetstream.WithPublishAsyncMaxPending(2*writers))
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "plain", Subjects: []string{"plain.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Replicas: o.Servers,
	})
	if err != nil {
		return err
	}
	record := make([]byte, 300)
	begun := time.Now()
	err = harness.Each(n, writers, func(i int) error {
		revision := uint64(0)
		for range writesOfATask {
			f, err := js.PublishAsync(fmt.Sprintf("plain.b%06d", i), record, jetstream.WithExpectLastSequencePerSubject(revision))
			if err != nil {
				return err
			}
			select {
			case ack := <-f.Ok():
				revision = ack.Sequence
			case err := <-f.Err():
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rate := float64(writesOfATask*n) / time.Since(begun).Seconds()
	fmt.Fprintf(out, "the same server makes %.0f compare-and-swaps a second for a client that does nothing else: %.0f tasks a second at the most, of %d writes each\n",
		rate, rate/writesOfATask, writesOfATask)
	return nil
}

// writers is how many keys are written at once.
const writers = 512
