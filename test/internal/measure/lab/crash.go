package lab

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Crash measures from the last renewal that the store acknowledged (the instant
// at which it left) of a leader whose connection ends, to the instant at which
// its successor is notified.
func Crash(b *Bench) error {
	ttls := []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second}
	if b.Quick {
		ttls = ttls[2:] // the one that every library permits
	}
	for _, ttl := range ttls {
		c := figure.Crash{TTL: ttl}
		var lease peer.Lease
		if lease, c.Permitted = b.Lib.LeaseFor(ttl); c.Permitted {
			var err error
			if c.Samples, err = b.crashes(lease, b.N(30, 4)); err != nil {
				return fmt.Errorf("TTL %v: %w", ttl, err)
			}
		}
		b.Result.Crashes = append(b.Result.Crashes, c)
	}
	return nil
}

// crashes lets the leaders of n groups crash, spread over a time so that they
// do not load each other.
func (b *Bench) crashes(lease peer.Lease, n int) (harness.Samples, error) {
	samples := make(harness.Samples, n)
	err := b.Spread(n, max(lease.TTL/time.Duration(n), 50*time.Millisecond), func(i int) (err error) {
		samples[i], err = b.undisturbedCrash(lease, fmt.Sprintf("crash-%v-%d", lease.TTL, i))
		return err
	})
	return samples, err
}

func (b *Bench) undisturbedCrash(lease peer.Lease, group string) (took time.Duration, err error) {
	for range attempts {
		if took, err = b.crash(lease, group); !errors.Is(err, errDisturbed) {
			break
		}
		group += "-again"
	}
	return took, err
}

// crash ends the leader's connection after an acknowledged renewal.
func (b *Bench) crash(lease peer.Lease, group string) (took time.Duration, err error) {
	var lab natslab.Program
	defer lab.Close()
	var proxy *natslab.Relay
	if err := lab.Run(func() error {
		address, _, _ := strings.Cut(b.Site.Address(), ",") // the address of one of a cluster
		proxy = natslab.NewRelay(&lab, address)
		return nil
	}); err != nil {
		return 0, err
	}
	doomed, err := b.Lib.Connect(proxy.Addr(), peer.Options{})
	if err != nil {
		return 0, err
	}
	sound, err := b.connect()
	if err != nil {
		doomed.Close()
		return 0, err
	}
	var last atomic.Int64 // when the latest renewal left
	var renewals atomic.Int64
	victim, err := b.join(doomed, peer.Candidacy{Group: group, ID: "victim", Lease: lease, Renewed: func(sent time.Time) {
		last.Store(sent.UnixNano())
		renewals.Add(1)
	}})
	if err != nil {
		return 0, err
	}
	defer desert(victim, doomed)
	if _, err := b.leads(victim); err != nil {
		return 0, err
	}
	heir, err := b.join(sound, peer.Candidacy{Group: group, ID: "heir", Lease: lease})
	if err != nil {
		return 0, err
	}
	defer desert(heir, sound)
	if err := b.Await("the heir to follow", nil, func() bool { return heir.Follows("victim") || !victim.Works() }); err != nil {
		return 0, err
	}
	before := renewals.Load()
	if err := b.Await("a renewal", nil, func() bool { return renewals.Load() > before || !victim.Works() }); err != nil {
		return 0, err
	}
	proxy.Cut()
	if !victim.Works() || len(heir.promoted) > 0 {
		return 0, errDisturbed
	}
	at, err := b.leads(heir)
	if err != nil {
		return 0, err
	}
	return at.Sub(time.Unix(0, last.Load())), nil
}
