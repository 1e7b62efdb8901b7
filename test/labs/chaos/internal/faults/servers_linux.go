package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/arena"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/results"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	// crowd is how many candidates a herd has.
	crowd = 200
	// newcomers is how many join one after the other, in the course of a TTL.
	newcomers = 8
)

var serverKinds = []kind{
	{atServers("server kill", "the server (of three: the one that leads the stream) is killed (SIGKILL) and started again", schedule.Everywhere), func(r *round.Round, f schedule.Fault) {
		lose(r, f, leadingNode(r, f))
	}},
	{atServers("server pause", "that server is stopped (SIGSTOP) for a while", schedule.Everywhere), counted(func(r *round.Round, f schedule.Fault) {
		node := leadingNode(r, f)
		node.Signal(unix.SIGSTOP)
		r.Sleep(f.Length)
		node.Signal(unix.SIGCONT)
	})},
	{atServers("step-down", "the stream's leader hands over to another server", schedule.Replicated), counted(func(r *round.Round, f schedule.Fault) {
		for range 3 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			r.StepDown(ctx)
			cancel()
			r.Sleep(f.Length / 3)
		}
	})},
	{atServers("loss of one of three", "a server is killed and comes back", schedule.Replicated), func(r *round.Round, f schedule.Fault) {
		lose(r, f, r.Servers.Nodes[f.RNG().IntN(3)])
	}},
	{atServers("loss of two of three", "two servers are killed and come back", schedule.Replicated), func(r *round.Round, f schedule.Fault) {
		first := f.RNG().IntN(3)
		lose(r, f, r.Servers.Nodes[first], r.Servers.Nodes[(first+1)%3])
	}},
	{hiding(atServers("key deleted", "another tool deletes the record", schedule.Everywhere)), counted(func(r *round.Round, f schedule.Fault) {
		for range 1 + f.RNG().IntN(3) {
			r.Delete()
			r.Sleep(f.Length / 3)
		}
	})},
	{hiding(atServers("key overwritten", "another tool writes something else over the record, and deletes that in the end", schedule.Everywhere)), counted(func(r *round.Round, f schedule.Fault) {
		rng := f.RNG()
		for range 1 + rng.IntN(3) {
			r.Overwrite(arena.Garbage[rng.IntN(len(arena.Garbage))])
			r.Sleep(f.Length / 3)
		}
		// A candidate that has seen nothing else would leave it alone for an
		// hour (docs/reference/protocol.md, rule 7).
		r.Delete()
	})},
	{hiding(atServers("bucket deleted", "the bucket is deleted, and made again by the candidates or by us", schedule.Forgetful)), counted(func(r *round.Round, f schedule.Fault) {
		r.Eventually("the bucket deleted", round.Healing, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return r.DeleteBucket(ctx)
		})
		r.Sleep(f.Length)
		if f.RNG().IntN(2) == 0 {
			r.Eventually("the bucket made again", round.Healing, r.MakeBucket)
		}
	})},
	{hiding(atServers("store restored", "all servers are killed and started on a copy of their files from a TTL or two before", schedule.Forgetful)), counted(restore)},
	{atServers("slow disk", "each write and sync of the server's files takes up to half a TTL", schedule.OnDisk), onDisk(slowDisk)},
	{atServers("full disk", "the server's disk is full; when there is room again the server is restarted, since it gives its storage up",
		func(s schedule.Shape) bool { return schedule.OnDisk(s) && schedule.Forgetful(s) }), onDisk(fullDisk)},
	{atServers("credentials revoked", "the candidates' users are taken from the servers' configuration, and come back", schedule.Everywhere), counted(func(r *round.Round, f schedule.Fault) {
		canaries := r.Canaries(arena.Guest)
		r.Authorize(false)
		r.Eventually("no server lets the candidates in", round.Healing, canaries.Connected(false))
		r.Sleep(f.Length)
		r.Authorize(true)
		r.Eventually("all servers let the candidates in", round.Healing, canaries.Connected(true))
		canaries.Close()
	})},
	{atServers("rights withdrawn", "the candidates may not do one or two of these, and then all of them again: write the record, read it, hear of it", schedule.Everywhere), counted(func(r *round.Round, f schedule.Fault) {
		withdraw(r, f, arena.Everybody)
	})},
	{atServers("rights withdrawn from one", "the same, of one candidate", schedule.Everywhere), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		withdraw(r, f, s.ID)
	})},
	{atServers("herd", fmt.Sprintf("%d candidates join at once, and leave at once", crowd), schedule.Everywhere), counted(func(r *round.Round, f schedule.Fault) {
		p := r.Herd(crowd, drawnRate(r, f.RNG()))
		r.Sleep(max(f.Length, 2*r.Plan.TTL))
		r.Stop(p)
	})},
}

// withdraw denies one user, or all, some rights for a while.
func withdraw(r *round.Round, f schedule.Fault, who string) {
	rng := f.RNG()
	rights := slices.Clone(arena.Rights)
	rng.Shuffle(len(rights), func(i, j int) { rights[i], rights[j] = rights[j], rights[i] })
	canaries := r.Canaries(cmp.Or(who, arena.Guest))
	r.Deny(who, rights[:1+rng.IntN(2)]...)
	r.Eventually("all servers deny some rights", round.Healing, canaries.Denied(true))
	r.Sleep(f.Length)
	r.Authorize(true)
	r.Eventually("no server denies anything", round.Healing, canaries.Denied(false))
	canaries.Close()
}

// drawnRate draws the rate of a clock of processes that join, if a round has
// such.
func drawnRate(r *round.Round, rng *rand.Rand) int {
	if len(r.Plan.Rates) == 0 {
		return schedule.TrueClock
	}
	return schedule.DrawRate(rng)
}

// counted is for kinds that always happen.
func counted(do func(*round.Round, schedule.Fault)) func(*round.Round, schedule.Fault) {
	return func(r *round.Round, f schedule.Fault) {
		do(r, f)
		count(r, f)
	}
}

func count(r *round.Round, f schedule.Fault) {
	r.Count(func(c *results.Counts) { c.Did(f.Kind.Name) })
}

// onDisk is for kinds that act on a disk. It counts a fault as skipped if the
// servers' files are not on a disk of the lab.
func onDisk(do func(*round.Round, schedule.Fault, *arena.Disk)) func(*round.Round, schedule.Fault) {
	return func(r *round.Round, f schedule.Fault) {
		d, err := r.Disk()
		if err != nil {
			r.Count(func(c *results.Counts) { c.Skipped(f.Kind.Name, err) })
			return
		}
		do(r, f, d)
		count(r, f)
	}
}

func slowDisk(r *round.Round, f schedule.Fault, d *arena.Disk) {
	delay := schedule.Between(f.RNG(), r.Plan.TTL/20, r.Plan.TTL/2)
	d.Slow(delay)
	r.Eventually("a write takes as long as the slow disk", round.Healing, func(ctx context.Context) error {
		if begun := time.Now(); r.Probe(ctx) == nil && time.Since(begun) < delay {
			return errors.New("it does not")
		}
		return nil
	})
	r.Sleep(f.Length)
	d.Slow(0)
}

func fullDisk(r *round.Round, f schedule.Fault, d *arena.Disk) {
	r.Check(d.Fill())
	r.Eventually("the full disk refuses writes", round.Healing, func(ctx context.Context) error {
		if r.Probe(ctx) == nil {
			return errors.New("it does not")
		}
		return nil
	})
	r.Sleep(f.Length)
	r.Check(d.Empty())
	r.Servers.Nodes[0].Kill()
	r.Servers.Nodes[0].Run()
}

// leadingNode returns the node that leads the stream, or any if none does.
func leadingNode(r *round.Round, f schedule.Fault) *natslab.Process {
	if node, err := r.StreamLeader(r.Context()); err == nil {
		return node
	}
	return r.Servers.Nodes[f.RNG().IntN(len(r.Servers.Nodes))]
}

// lose kills nodes and starts them again.
func lose(r *round.Round, f schedule.Fault, nodes ...*natslab.Process) {
	down := func() {
		for _, n := range nodes {
			n.Kill()
		}
		r.Sleep(f.Length)
		for _, n := range nodes {
			n.Run()
		}
		if r.Plan.Shape.Memory {
			// Whether it comes back with what it knew shows only when it is
			// back.
			r.Eventually("the store takes writes", round.Healing, r.Probe)
		}
	}
	if r.Plan.Shape.Memory {
		r.Forget(down)
	} else {
		down()
	}
	count(r, f)
}

// lastSequence returns the bucket's last sequence, as soon as the servers
// report it.
func lastSequence(r *round.Round) (last uint64) {
	r.Eventually("the servers report the bucket's last sequence", round.Healing, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		state, err := r.State(ctx)
		last = state.LastSeq
		return err
	})
	return last
}

// restore puts the servers' files back to what they were a while before, as a
// loss of power does to files that were not synced.
func restore(r *round.Round, f schedule.Fault) {
	r.Kill()
	copies := r.Copy()
	r.Heal()
	r.Eventually("the store takes writes before it is restored", round.Healing, r.Probe)
	r.Sleep(f.Length)
	before := lastSequence(r)
	r.Forget(func() {
		r.Kill()
		r.Restore(copies)
		r.Heal()
		if after := lastSequence(r); after >= before {
			r.Fatalf("the store was restored, and lost nothing: sequence %d before, %d after", before, after)
		}
		r.Eventually("the store takes writes after it was restored", round.Healing, r.Probe)
	})
}
