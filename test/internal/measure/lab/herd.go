package lab

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// Herds measures elections with few and with many candidates, each with its own
// connection, whose leader leaves again and again, and then dies again and
// again.
func Herds(b *Bench) error {
	sizes := []int{2, 3, 20, 200}
	if b.Quick {
		sizes = []int{3, 20}
	}
	for _, n := range sizes {
		if err := b.herd(n); err != nil {
			return fmt.Errorf("%d candidates: %w", n, err)
		}
	}
	return nil
}

func (b *Bench) herd(n int) error {
	lease, ok := b.Lib.LeaseFor(2 * time.Second)
	if !ok {
		return errors.New("no lease of two seconds")
	}
	r := &ring{Bench: b, lease: lease, group: fmt.Sprintf("herd-%d", n)}
	defer func() { r.scatter() }()
	if err := r.gather(n); err != nil {
		return err
	}
	h := figure.Herd{Candidates: n}
	for _, s := range []struct {
		end  func() (time.Duration, error)
		into *figure.Succession
	}{{r.pass, &h.Left}, {r.passOn, &h.Died}} {
		for range b.N(15, 3) {
			if err := r.succession(s.end, s.into); err != nil {
				return err
			}
		}
	}
	if lib, ok := b.Lib.(peer.Broadcaster); ok && n == 200 {
		r.scatter()
		r.members = nil
		var err error
		if h.Bare, err = b.relay(lib.Broadcasts(), n); err != nil {
			return err
		}
	}
	b.Result.Herds = append(b.Result.Herds, h)
	return nil
}

// succession ends a term and measures what follows.
func (r *ring) succession(end func() (time.Duration, error), into *figure.Succession) error {
	if err := r.settle(); err != nil {
		return err
	}
	before := r.claims()
	took, err := end()
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
	into.Took, into.Claims = append(into.Took, took), append(into.Claims, claims)
	return nil
}

// passOn ends the leader's connection, waits until another one leads, has a new
// candidate take the place of the dead one, and returns how long it took from
// the last renewal that the store acknowledged.
func (r *ring) passOn() (took time.Duration, err error) {
	for range attempts {
		if took, err = r.tryPassOn(); !errors.Is(err, errDisturbed) {
			return took, err
		}
		if err := r.restart(); err != nil {
			return 0, err
		}
	}
	return took, err
}

func (r *ring) tryPassOn() (time.Duration, error) {
	if err := r.settle(); err != nil {
		return 0, err
	}
	old := r.members[0]
	before := old.renewed.Load()
	if err := r.Await("a renewal", nil, func() bool { return old.renewed.Load() != before || !old.Works() }); err != nil {
		return 0, err
	}
	if !old.Works() {
		return 0, errDisturbed
	}
	old.client.Close()
	next, at, err := r.successor()
	if err != nil {
		return 0, err
	}
	took := at.Sub(time.Unix(0, old.renewed.Load()))
	desert(old, old.client)
	r.members[0], r.members[next] = r.members[next], r.members[0]
	r.members = r.remove(next)
	return took, r.enter()
}

// relay measures the lower bound for a library that notifies n candidates of
// the leader: the holder of the key sends one other a message, the receiver
// writes, and the server notifies all.
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
