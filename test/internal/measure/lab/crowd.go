package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// measureCrowd: many elections in one process and on one connection, in a
// process that leads them all and in one that follows.
func measureCrowd(b *Bench) error {
	sizes := []figure.Crowd{
		{Elections: 1000, TTL: 3 * time.Second},
		// Ten times as many, and as many renewals in a second.
		{Elections: 10_000, TTL: 30 * time.Second},
	}
	if b.Quick {
		sizes = []figure.Crowd{{Elections: 100, TTL: 3 * time.Second}}
	}
	if err := Crowds(b, sizes...); err != nil {
		return err
	}
	plain := b.plain()
	if plain == nil {
		return nil
	}
	b.Result.Plain.Crowd = sizes[0]
	if err := plain.crowd(&b.Result.Plain.Crowd, "plain"); err != nil {
		return fmt.Errorf("%d elections in a plain bucket: %w", sizes[0].Elections, err)
	}
	return nil
}

// Crowds measures crowds of these sizes.
func Crowds(b *Bench, sizes ...figure.Crowd) error {
	for i, c := range sizes {
		if err := b.crowd(&c, fmt.Sprintf("crowd%d", i)); err != nil {
			return fmt.Errorf("%d elections: %w", c.Elections, err)
		}
		b.Result.Crowds = append(b.Result.Crowds, c)
	}
	return nil
}

// A crowded process takes part in many elections.
type crowded struct {
	Library   string
	Address   string
	Prefix    string // of the groups' names
	ID        string
	Elections int
	TTL       time.Duration
	Window    time.Duration
}

// The IDs of the two processes.
const (
	leads   = "leads"
	follows = "follows"
)

func (b *Bench) crowd(c *figure.Crowd, prefix string) error {
	window := 20 * time.Second
	if b.Quick {
		window = 2 * time.Second
	}
	sides := []struct {
		id   string
		cost *figure.Cost
		p    *harness.Child
	}{{id: leads, cost: &c.Leading}, {id: follows, cost: &c.Following}}
	defer func() {
		for _, side := range sides {
			if side.p != nil {
				side.p.Kill() // there is nothing left to learn from its leaving
			}
		}
	}()
	for i, side := range sides {
		p, err := b.gatherCrowd(crowded{b.Lib.Name(), b.Site.Address(), prefix, side.id, c.Elections, c.TTL, window})
		if err != nil {
			return err
		}
		sides[i].p = p
	}
	for _, side := range sides { // both at the same time
		if err := json.NewEncoder(side.p.In).Encode(struct{}{}); err != nil {
			return err
		}
	}
	for _, side := range sides {
		if err := side.p.Hear(side.cost); err != nil {
			return fmt.Errorf("the process that %s: %w", side.id, err)
		}
	}
	return nil
}

// gatherCrowd starts a process, and waits until it has joined its elections.
func (b *Bench) gatherCrowd(c crowded) (*harness.Child, error) {
	p, err := harness.StartPart(b.Ctx, partCrowd, c)
	if err != nil {
		return nil, err
	}
	var ready struct{}
	if err := p.Hear(&ready); err != nil {
		p.Kill()
		return nil, fmt.Errorf("the process that %s: %w", c.ID, err)
	}
	return p, nil
}

// Play is the process. It reports when it has joined all elections, and, if
// asked, what they cost.
func (c crowded) Play(lib peer.Library, stdin io.Reader, stdout io.Writer) error {
	lease, ok := lib.LeaseFor(c.TTL)
	if !ok {
		return fmt.Errorf("%s has no leases of %v", c.Library, c.TTL)
	}
	// As many renewals in a second for all of them, whatever their defaults.
	lease.Heartbeat = c.TTL / 3
	client, err := lib.Connect(c.Address, peer.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	before, begun := harness.Measure(), time.Now()
	all, err := c.joinAll(client, lease)
	if err != nil {
		return err
	}
	c.settle(all)
	joined := time.Since(begun)
	if err := json.NewEncoder(stdout).Encode(struct{}{}); err != nil {
		return err
	}
	var asked struct{}
	if err := json.NewDecoder(stdin).Decode(&asked); err != nil {
		return err
	}
	from, since := harness.Processor(), time.Now()
	<-time.After(c.Window)
	spent := (harness.Processor() - from).Seconds() / time.Since(since).Seconds()
	heap, goroutines := harness.Measure().Each(before, c.Elections)
	return harness.Serve(stdin, stdout, figure.Cost{
		Joined: joined, CPU: spent, Settled: c.settled(all), Heap: heap, Goroutines: goroutines,
	})
}

// joinAll joins elections, some at a time.
func (c crowded) joinAll(client peer.Client, lease peer.Lease) ([]peer.Candidate, error) {
	all := make([]peer.Candidate, c.Elections)
	err := harness.Each(len(all), 64, func(i int) (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		all[i], err = client.Join(ctx, peer.Candidacy{
			Group: fmt.Sprintf("%s-%05d", c.Prefix, i), ID: c.ID, Lease: lease,
		})
		return err
	})
	return all, err
}

// settle waits until all are settled, or for so long that they will not be; the
// count at the end shows which.
func (c crowded) settle(all []peer.Candidate) {
	limit := time.NewTimer(harness.Patience)
	defer limit.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for c.settled(all) < len(all) {
		select {
		case <-look.C:
		case <-limit.C:
			return
		}
	}
}

// settled is how many are what they should be.
func (c crowded) settled(all []peer.Candidate) (n int) {
	for _, e := range all {
		if c.ID == leads && e.Works() || c.ID != leads && e.Follows(leads) {
			n++
		}
	}
	return n
}
