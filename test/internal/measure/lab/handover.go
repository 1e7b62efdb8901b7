package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// measureHandover measures from the call by which the leader leaves to the
// instant at which its successor is notified. Two candidates take turns, each
// on its own connection, and a compare-and-swap is timed in between.
func measureHandover(b *Bench) error {
	lease, ok := b.Lib.LeaseFor(2 * time.Second)
	if !ok {
		return errors.New("no lease of two seconds")
	}
	swaps, err := b.Site.Swaps(b.Ctx)
	if err != nil {
		return err
	}
	defer swaps.Close()
	r := &ring{Bench: b, lease: lease, group: "handover"}
	defer r.scatter()
	if err := r.gather(2); err != nil {
		return err
	}
	const warmUp = 3
	for i := range b.N(150, 5) + warmUp {
		took, err := r.pass()
		if err != nil {
			return err
		}
		// After a pause, as the handover.
		if err := b.Pause(20 * time.Millisecond); err != nil {
			return err
		}
		swap, err := swaps.Once(b.Ctx)
		if err != nil {
			return err
		}
		if i >= warmUp {
			b.Result.Handover = append(b.Result.Handover, took)
			b.Result.RoundTrip = append(b.Result.RoundTrip, swap)
		}
	}
	return nil
}

// A ring is an election whose leader leaves and comes back as a new candidate.
// Its first member leads.
type ring struct {
	*Bench
	lease   peer.Lease
	group   string
	members []*member
	entered int
	// renewals, optional, holds the instant of the latest renewal.
	renewals chan time.Time
}

// enter adds a member with its own connection.
func (r *ring) enter() error {
	client, err := r.connect()
	if err != nil {
		return err
	}
	return r.enterOn(client)
}

func (r *ring) enterOn(client peer.Client) error {
	r.entered++
	as := peer.Candidacy{Group: r.group, ID: fmt.Sprintf("c%d", r.entered), Lease: r.lease}
	if r.renewals != nil {
		as.Renewed = r.renewed
	}
	m, err := r.join(client, as)
	if err != nil {
		client.Close()
		return err
	}
	r.members = append(r.members, m)
	if len(r.members) > 1 {
		return nil
	}
	_, err = r.leads(m)
	return err
}

// renewed keeps the latest renewal. The leader alone calls it, one at a time.
func (r *ring) renewed(sent time.Time) {
	select {
	case <-r.renewals:
	default:
	}
	r.renewals <- sent
}

// errDisturbed means that a lease was lost without a fault, since the machine
// is too busy. The measurement is void.
var errDisturbed = errors.New("a lease was lost; the machine is too busy")

// attempts is how often a disturbed measurement is started again.
const attempts = 5

// settle waits until all others have heard of the leader.
func (r *ring) settle() error {
	first := r.members[0]
	for _, m := range r.members[1:] {
		err := r.Await(m.id+" to follow "+first.id, nil, func() bool { return m.Follows(first.id) || !first.Works() })
		if err != nil {
			return err
		}
	}
	if !first.Works() {
		return errDisturbed
	}
	return nil
}

// pass has the leader leave, waits until another one leads, lets the former
// come back, and returns how long nobody led.
func (r *ring) pass() (took time.Duration, err error) {
	for range attempts {
		if took, err = r.tryPass(); !errors.Is(err, errDisturbed) {
			return took, err
		}
		if err := r.restart(); err != nil {
			return 0, err
		}
	}
	return took, err
}

// restart starts again with as many members.
func (r *ring) restart() error {
	n := len(r.members)
	r.scatter()
	r.members, r.group = nil, r.group+"-again"
	return r.gather(n)
}

func (r *ring) tryPass() (time.Duration, error) {
	if err := r.settle(); err != nil {
		return 0, err
	}
	// Some libraries look at intervals, from which the handover should be
	// independent.
	if err := r.Pause(rand.N(min(r.lease.Heartbeat, 400*time.Millisecond))); err != nil {
		return 0, err
	}
	old := r.members[0]
	if !old.Works() {
		return 0, errDisturbed
	}
	begun := time.Now()
	left := make(chan error, 1)
	go func() { left <- r.stop(old) }()
	next, at, err := r.successor()
	if err := errors.Join(err, <-left); err != nil {
		return 0, err
	}
	r.members[0], r.members[next] = r.members[next], r.members[0]
	r.members = r.remove(next)
	return at.Sub(begun), r.enterOn(old.client)
}

// remove takes out a member that has left.
func (r *ring) remove(i int) []*member {
	last := len(r.members) - 1
	r.members[i] = r.members[last]
	return r.members[:last]
}

// successor waits until one of the others was notified.
func (r *ring) successor() (next int, at time.Time, err error) {
	err = r.Await("a successor", nil, func() bool {
		for i, m := range r.members[1:] {
			select {
			case at = <-m.promoted:
				next = i + 1
				return true
			default:
			}
		}
		return false
	})
	return next, at, err
}

// gather adds n members, the connections of some at a time, the leader first.
func (r *ring) gather(n int) error {
	if err := r.enter(); err != nil {
		return err
	}
	clients := make([]peer.Client, n-1)
	if err := harness.Each(n-1, n-1, func(i int) (err error) {
		clients[i], err = r.connect()
		return err
	}); err != nil {
		return err
	}
	for _, c := range clients {
		if err := r.enterOn(c); err != nil {
			return fmt.Errorf("candidate %d: %w", r.entered, err)
		}
	}
	return nil
}

// scatter ends all at once.
func (r *ring) scatter() {
	var all sync.WaitGroup
	for _, m := range r.members {
		all.Go(func() { desert(m, m.client) })
	}
	all.Wait()
}
