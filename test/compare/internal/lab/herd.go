package lab

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/test/compare/internal/figure"
	"github.com/seed-ff2cb582/leader/test/compare/internal/peer"
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

// gather adds candidates, some at a time, the leader first.
func (r *ring) gather(n int) error {
	if err := r.enter(); err != nil {
		return err
	}
	clients, errs := make([]peer.Client, n-1), make([]error, n-1)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { clients[i], errs[i] = r.connect() })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, c := range clients {
		if err := r.enterOn(c); err != nil {
			return fmt.Errorf("candidate %d: %w", r.entered, err)
		}
	}
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

// scatter ends all at once.
func (r *ring) scatter() {
	var all sync.WaitGroup
	for _, m := range r.members {
		all.Go(func() { desert(m, m.client) })
	}
	all.Wait()
}
