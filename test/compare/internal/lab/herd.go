package lab

import (
	"errors"
	"time"

	"github.com/seed-ff2cb582/leader/test/compare/internal/figure"
)

// measureHerd: two hundred candidates, each with a connection of its own, whose leader leaves again and again.
func measureHerd(b *bench) error {
	lease, ok := b.lib.LeaseFor(3 * time.Second)
	if !ok {
		return errors.New("no lease of three seconds")
	}
	r := &ring{bench: b, lease: lease, group: "herd"}
	defer r.scatter()
	if err := r.gather(b.n(200, 20)); err != nil {
		return err
	}
	h := figure.HerdStats{Candidates: len(r.members)}
	for range b.n(15, 3) {
		if err := r.settle(); err != nil {
			return err
		}
		before := r.claims()
		took, err := r.pass()
		if err != nil {
			return err
		}
		// The one that came back counts from here on; so does nobody who has left.
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
	b.result.Herd = h
	return nil
}

// claims returns the claims of each member so far.
func (r *ring) claims() map[*member]int {
	counts := make(map[*member]int, len(r.members))
	for _, m := range r.members {
		counts[m] = m.Claims()
	}
	return counts
}
