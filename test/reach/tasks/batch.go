package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// batched is the server's cost of compare-and-swaps in atomic batches
// (Nats-Batch-Id), compared with single ones. It shows why a dispatcher sends
// them alone.
func batched(ctx context.Context, o options, out io.Writer) error {
	l, err := newLab(ctx, o, io.Discard)
	if err != nil {
		return err
	}
	defer func() { _ = l.close() }()
	js, err := jetstream.New(l.nc)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "plain", Subjects: []string{"plain.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Replicas: o.Servers, AllowAtomicPublish: true,
	})
	if err != nil {
		return err
	}
	fmt.Fprint(out, "the same in atomic batches:")
	for _, size := range []int{1, 32, 512} {
		rate, each, err := batches(l, size)
		if err != nil {
			return fmt.Errorf("%w: batches of %d: %w", errLab, size, err)
		}
		fmt.Fprintf(out, " of %d %.0f a second", size, rate)
		if each > 0 { // if this system reports it
			fmt.Fprintf(out, " (server: %.0f µs each)", float64(each)/float64(time.Microsecond))
		}
		fmt.Fprint(out, ";")
	}
	fmt.Fprintln(out)
	return nil
}

// batchFor is how long batches of one size are written.
const batchFor = time.Second

// batches writes batches of a size for a while, as many at once as give the
// server some 512 messages, and returns how many messages go through in a
// second, and what the server has used for each.
func batches(l *lab, size int) (rate float64, each time.Duration, err error) {
	before, _ := harness.ProcessorOf(l.server.PID())
	begun := time.Now()
	var sent atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, max(2, writers/size))
	for w := range max(2, writers/size) {
		all.Go(func() {
			prefix, last := fmt.Sprintf("plain.%d.%d", size, w), uint64(0)
			for round := 0; time.Since(begun) < batchFor; round++ {
				rev, err := batch(l.nc, fmt.Sprintf("%d-%d-%d", size, w, round), prefix, size, last)
				if err != nil {
					errs <- err
					return
				}
				last = rev
				sent.Add(int64(size))
			}
		})
	}
	all.Wait()
	after, _ := harness.ProcessorOf(l.server.PID())
	n := max(sent.Load(), 1)
	select {
	case err = <-errs:
	default:
	}
	return float64(n) / time.Since(begun).Seconds(), (after - before) / time.Duration(n), err
}

// batch writes size keys, each on condition of its revision: the last of the
// batch before this one was last. The writes of a batch follow each other.
func batch(nc *nats.Conn, id, prefix string, size int, last uint64) (uint64, error) {
	record := make([]byte, 300)
	for i := range size {
		expected := uint64(0)
		if last > 0 {
			expected = last - uint64(size-1-i)
		}
		m := &nats.Msg{Subject: fmt.Sprintf("%s.%d", prefix, i), Data: record, Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {fmt.Sprint(expected)}}}
		if size > 1 {
			m.Header["Nats-Batch-Id"], m.Header["Nats-Batch-Sequence"] = []string{id}, []string{fmt.Sprint(i + 1)}
		}
		if i < size-1 {
			if err := nc.PublishMsg(m); err != nil {
				return 0, err
			}
			continue
		}
		if size > 1 {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
		}
		answer, err := nc.RequestMsg(m, harness.Patience)
		if err != nil {
			return 0, err
		}
		var ack struct {
			Seq   uint64 `json:"seq"`
			Error *struct {
				Text string `json:"description"`
			} `json:"error"`
		}
		if err := json.Unmarshal(answer.Data, &ack); err != nil {
			return 0, err
		}
		if ack.Error != nil {
			return 0, fmt.Errorf("%w: %s", errLab, ack.Error.Text)
		}
		last = ack.Seq
	}
	return last, nil
}
