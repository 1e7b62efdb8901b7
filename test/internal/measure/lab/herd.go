package lab

import (
	"errors"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// Herd measures two hundred candidates, each with a connection of its own, whose
// leader leaves again and again.
func Herd(b *Bench) error {
	lease, ok := b.Lib.LeaseFor(3 * time.Second)
	if !ok {
		return errors.New("no lease of three seconds")
	}
	r := &ring{Bench: b, lease: lease, group: "herd"}
	defer r.scatter()
	if err := r.gather(b.N(200, 20)); err != nil {
		return err
	}
	h := figure.HerdStats{Candidates: len(r.members)}
	for range b.N(15, 3) {
		if err := r.settle(); err != nil {
			return err
		}
		before := r.claims()
		took, err := r.pass()
		if err != nil {
			return err
		}
		// The one that came back counts from here on; so does nobody who has
		// left.
		newcomer := r.members[len(r.members)-1]
		if err := r.settle(); err != nil {
			return err
		}
		claims := 0
		for m, n := range r.claims() {
			if m != newcomer {
				claims += n - before[m]
			}
		}
		h.Took, h.Claims = append(h.Took, took), append(h.Claims, claims)
	}
	r.scatter()
	r.members = nil
	if lib, ok := b.Lib.(peer.Broadcaster); ok {
		var err error
		if h.Bare, err = b.relay(lib.Broadcasts(), h.Candidates); err != nil {
			return err
		}
	}
	b.Result.Herd = h
	return nil
}

// relay measures what a library cannot go below that tells n candidates who
// leads: who holds the key tells one other by a message, that one writes, and
// the server tells all.
func (b *Bench) relay(prefix string, n int) (took harness.Samples, err error) {
	r, err := b.Site.Relay(b.Ctx, prefix, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for range b.N(50, 3) {
		d, err := r.Pass(b.Ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
		// After a pause, as a vacancy.
		if err := b.Pause(50 * time.Millisecond); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// claims returns the claims of each member so far.
func (r *ring) claims() map[*member]int {
	counts := make(map[*member]int, len(r.members))
	for _, m := range r.members {
		counts[m] = m.Claims()
	}
	return counts
}
