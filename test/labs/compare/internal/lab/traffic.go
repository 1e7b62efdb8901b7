package lab

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/figure"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/peer"
)

// measureTraffic: one leader and ten followers, each with a connection of its
// own, and nothing happens.
func measureTraffic(b *bench) error {
	if err := b.traffic(); err != nil {
		return err
	}
	plain := b.plain()
	if plain == nil {
		return nil
	}
	if err := plain.traffic(); err != nil {
		return fmt.Errorf("in a plain bucket: %w", err)
	}
	b.result.Plain.Traffic = plain.result.Traffic
	return nil
}

func (b *bench) traffic() error {
	const followers, heartbeat = 10, time.Second
	var m harness.Meter
	r := &ring{bench: b, lease: b.lib.BeatFor(heartbeat), group: "traffic", renewals: make(chan time.Time, 1)}
	defer r.scatter()
	for range followers + 1 {
		client, err := b.lib.Connect(b.site.Address(), peer.Options{Dial: func(ctx context.Context, address string) (net.Conn, error) {
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
	// From one renewal to another, so that each counts with all that it causes.
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
	b.result.Traffic = figure.Traffic{
		Followers: followers, Heartbeat: heartbeat,
		In: float64(to.in-from.in) / seconds, Out: float64(to.out-from.out) / seconds, Bytes: float64(to.bytes-from.bytes) / seconds,
	}
	return nil
}

// counts are those of all connections at one instant.
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
	c.in, c.out, err = r.site.Messages(r.Ctx)
	return c, err
}

// measureAnswer: what it takes to ask whether one leads.
func measureAnswer(on *bench) error {
	if !on.lib.Answers() {
		return nil
	}
	r := &ring{bench: on, lease: on.lib.BeatFor(time.Second), group: "answer"}
	defer r.scatter()
	if err := r.enter(); err != nil {
		return err
	}
	c := r.members[0]
	on.result.Answer = harness.Nanoseconds(harness.Asking(c.IsLeader))
	return nil
}
