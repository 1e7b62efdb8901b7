package lab

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// measureTraffic measures one leader and ten followers, each with its own
// connection, while nothing happens. Libraries that have a plain bucket are
// measured there, too.
func measureTraffic(b *Bench) error {
	if err := Traffic(b); err != nil {
		return err
	}
	plain := b.plain()
	if plain == nil {
		return nil
	}
	if err := Traffic(plain); err != nil {
		return fmt.Errorf("in a plain bucket: %w", err)
	}
	b.Result.Plain.Traffic = plain.Result.Traffic
	return nil
}

// Traffic measures from one renewal to another, so that each counts with all
// that it causes.
func Traffic(b *Bench) error {
	const followers, heartbeat = 10, time.Second
	var m harness.Meter
	r := &ring{Bench: b, lease: b.Lib.BeatFor(heartbeat), group: "traffic", renewals: make(chan time.Time, 1)}
	defer r.scatter()
	for range followers + 1 {
		client, err := b.Lib.Connect(b.Site.Address(), peer.Options{Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return m.DialContext(ctx, "tcp", address)
		}})
		if err != nil {
			return err
		}
		if err := r.enterOn(client); err != nil {
			return err
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	if err := b.Pause(3 * heartbeat); err != nil { // what a connection does once
		return err
	}
	from, err := r.afterRenewal(&m)
	if err != nil {
		return err
	}
	// In a full run longer than what is done now and then.
	if err := b.Pause(time.Duration(b.N(31, 3)) * heartbeat); err != nil {
		return err
	}
	to, err := r.afterRenewal(&m)
	if err != nil {
		return err
	}
	seconds := to.at.Sub(from.at).Seconds()
	b.Result.Traffic = figure.Traffic{
		Followers: followers, Heartbeat: heartbeat,
		In: float64(to.in-from.in) / seconds, Out: float64(to.out-from.out) / seconds, Bytes: float64(to.bytes-from.bytes) / seconds,
	}
	return nil
}

// counts are the counts of all connections at one instant.
type counts struct {
	at             time.Time
	in, out, bytes int64
}

// afterRenewal waits for a renewal, and for what follows from it.
func (r *ring) afterRenewal(m *harness.Meter) (c counts, err error) {
	select {
	case <-r.renewals: // the latest
	default:
	}
	select {
	case c.at = <-r.renewals:
	case <-time.After(harness.Patience):
		return c, fmt.Errorf("waiting for a renewal: %w", harness.ErrPatience)
	}
	if err := r.Pause(r.lease.Heartbeat / 4); err != nil {
		return c, err
	}
	c.bytes = m.Up.Load() + m.Down.Load()
	c.in, c.out, err = r.Site.Messages(r.Ctx)
	return c, err
}

// Answer measures what it takes to ask whether one leads.
func Answer(on *Bench) error {
	if !on.Lib.Answers() {
		return nil
	}
	r := &ring{Bench: on, lease: on.Lib.BeatFor(time.Second), group: "answer"}
	defer r.scatter()
	if err := r.enter(); err != nil {
		return err
	}
	c := r.members[0]
	asked := harness.Asking(c.IsLeader)
	on.Result.Answer, on.Result.Allocations = harness.Nanoseconds(asked), asked.AllocsPerOp()
	return nil
}
