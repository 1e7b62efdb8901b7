package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

func replicated(s shape) bool { return s.nodes > 1 }

// forgetful shapes are those whose leaders cool down, by which one leads at a
// time even where the store loses what it acknowledged.
func forgetful(s shape) bool { return s.coolDown && !s.memory }

var serverKinds = []kind{
	{"server kill", "the server (of three: the one that leads the stream) is killed (SIGKILL) and started again", true, everywhere, func(r *round, f fault) {
		r.lose(f, r.leadingNode(f))
	}},
	{"server pause", "that server is stopped (SIGSTOP) for a while", true, everywhere, counted(func(r *round, f fault) {
		node := r.leadingNode(f)
		node.Signal(unix.SIGSTOP)
		r.sleep(f.length)
		node.Signal(unix.SIGCONT)
	})},
	{"step-down", "the stream's leader hands over to another server", true, replicated, counted(func(r *round, f fault) {
		for range 3 {
			ctx, cancel := context.WithTimeout(r.ctx, time.Second)
			_, _ = r.admin.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil) // it may have none now
			cancel()
			r.sleep(f.length / 3)
		}
	})},
	{"loss of one of three", "a server is killed and comes back", true, replicated, func(r *round, f fault) {
		r.lose(f, r.servers.Nodes[f.rng().IntN(3)])
	}},
	{"loss of two of three", "two servers are killed and come back", true, replicated, func(r *round, f fault) {
		first := f.rng().IntN(3)
		r.lose(f, r.servers.Nodes[first], r.servers.Nodes[(first+1)%3])
	}},
	{"key deleted", "another tool deletes the record", true, everywhere, counted(func(r *round, f fault) {
		for range 1 + f.rng().IntN(3) {
			r.foreign(foreignDelete())
			r.sleep(f.length / 3)
		}
	})},
	{"key overwritten", "another tool writes something else over the record, and deletes that in the end", true, everywhere, counted(func(r *round, f fault) {
		rng := f.rng()
		for range 1 + rng.IntN(3) {
			r.foreign(foreignPut(garbage[rng.IntN(len(garbage))]))
			r.sleep(f.length / 3)
		}
		// A candidate that has seen nothing else would leave it alone for an
		// hour (docs/protocol.md, rule 7).
		r.foreign(foreignDelete())
	})},
	{"bucket deleted", "the bucket is deleted, and made again by the candidates or by us", true, forgetful, counted(func(r *round, f fault) {
		r.eventually("the bucket deleted", healing, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return r.js.DeleteStream(ctx, stream)
		})
		r.sleep(f.length)
		if f.rng().IntN(2) == 0 {
			r.eventually("the bucket made again", healing, r.makeBucket)
		}
	})},
	{"store restored", "all servers are killed and started on a copy of their files from a TTL or two before", true, forgetful, counted(func(r *round, f fault) {
		r.restore(f)
	})},
	{"slow disk", "each write and sync of the server's files takes up to half a TTL", true, onDisk, func(r *round, f fault) {
		if !r.haveDisks(f) {
			return
		}
		delay := between(f.rng(), r.ttl/20, r.ttl/2)
		r.disks[0].slow(delay)
		r.eventually("a write takes as long as the slow disk", healing, func(ctx context.Context) error {
			if begun := time.Now(); r.probe(ctx) == nil && time.Since(begun) < delay {
				return errors.New("it does not")
			}
			return nil
		})
		r.sleep(f.length)
		r.disks[0].slow(0)
		r.counted(f)
	}},
	{"full disk", "the server's disk is full; when there is room again the server is restarted, since it gives its storage up", true,
		func(s shape) bool { return onDisk(s) && forgetful(s) },
		func(r *round, f fault) {
			if !r.haveDisks(f) {
				return
			}
			r.check(r.disks[0].fill())
			r.eventually("the full disk refuses writes", healing, func(ctx context.Context) error {
				if r.probe(ctx) == nil {
					return errors.New("it does not")
				}
				return nil
			})
			r.sleep(f.length)
			r.check(r.disks[0].empty())
			r.servers.Nodes[0].Kill()
			r.servers.Nodes[0].Run()
			r.counted(f)
		}},
	{"credentials revoked", "the candidates' user is taken from the servers' configuration, and comes back", true, everywhere, counted(func(r *round, f fault) {
		canaries := r.canaries()
		r.authorize(false)
		r.eventually("no server lets the candidates in", healing, connected(canaries, false))
		r.sleep(f.length)
		r.authorize(true)
		r.eventually("all servers let the candidates in", healing, connected(canaries, true))
		for _, c := range canaries {
			c.Close()
		}
	})},
	{"herd", fmt.Sprintf("%d candidates join at once, and leave at once", crowd), true, everywhere, counted(func(r *round, f fault) {
		r.mu.Lock()
		r.herds++
		name := fmt.Sprintf("herd-%d", r.herds)
		r.mu.Unlock()
		ids := make([]string, crowd)
		for i := range ids {
			ids[i] = fmt.Sprintf("%s-%d", name, i)
		}
		rate := trueClock
		if len(r.plan.rates) > 0 {
			rate = drawRate(f.rng())
		}
		p := r.begin(r.spec(name, ids, urls(r.proxies()), rate))
		r.sleep(max(f.length, 2*r.ttl))
		r.stop(p)
	})},
}

// onDisk tells on which shapes the servers' files are on a disk of ours: see
// newArena.
func onDisk(s shape) bool { return s.nodes == 1 && !s.memory }

// counted is for kinds that always happen.
func counted(do func(*round, fault)) func(*round, fault) {
	return func(r *round, f fault) {
		do(r, f)
		r.counted(f)
	}
}

func (r *round) counted(f fault) { r.count(func(c *counts) { c.faults[f.kind.name]++ }) }

// haveDisks reports whether the servers' files are on disks of ours, and if
// not, counts the fault as one that did not happen.
func (r *round) haveDisks(f fault) bool {
	if len(r.disks) > 0 {
		return true
	}
	r.count(func(c *counts) { c.skipped[f.kind.name] = r.noDisk.Error() })
	return false
}

// leadingNode returns the node that leads the stream, or any if none does.
func (r *round) leadingNode(f fault) *natslab.Process {
	if node, err := r.streamLeader(r.ctx); err == nil {
		return node
	}
	return r.servers.Nodes[f.rng().IntN(len(r.servers.Nodes))]
}

// lose kills nodes and starts them again.
func (r *round) lose(f fault, nodes ...*natslab.Process) {
	down := func() {
		for _, n := range nodes {
			n.Kill()
		}
		r.sleep(f.length)
		for _, n := range nodes {
			n.Run()
		}
		if r.shape.memory {
			// Whether it comes back with what it knew shows only when it is
			// back.
			r.eventually("the store takes writes", healing, r.probe)
		}
	}
	if r.shape.memory {
		r.forget(down)
	} else {
		down()
	}
	r.counted(f)
}

// canaries are connections with the candidates' credentials, one to each
// server.
func (r *round) canaries() (all []*nats.Conn) {
	for _, n := range r.servers.Nodes {
		all = append(all, natslab.Connect(r, n.URL(), nats.UserInfo(user, password), nats.IgnoreDiscoveredServers(), nats.IgnoreAuthErrorAbort()))
	}
	return all
}

func connected(all []*nats.Conn, want bool) func(context.Context) error {
	return func(context.Context) error {
		for _, c := range all {
			if c.IsConnected() != want {
				return fmt.Errorf("%s: connected %v", c.Opts.Url, c.IsConnected())
			}
		}
		return nil
	}
}

func (r *round) authorize(valid bool) {
	for _, n := range r.servers.Nodes {
		n.Configure(credentials(valid))
	}
}

// restore puts the servers' files back to what they were a while before, as a
// loss of power does to files that were not synced.
func (r *round) restore(f fault) {
	copies := make([]string, len(r.servers.Nodes))
	r.killServers()
	for i, n := range r.servers.Nodes {
		copies[i] = r.TempDir()
		r.check(os.CopyFS(copies[i], os.DirFS(n.StoreDir)))
	}
	r.heal()
	r.eventually("the store takes writes before it is restored", healing, r.probe)
	r.sleep(f.length)
	before := r.lastSequence()
	r.forget(func() {
		r.killServers()
		for i, n := range r.servers.Nodes {
			r.check(replaceAll(n.StoreDir, copies[i]))
		}
		r.heal()
		if after := r.lastSequence(); after >= before {
			r.Fatalf("the store was restored, and lost nothing: sequence %d before, %d after", before, after)
		}
		r.eventually("the store takes writes after it was restored", healing, r.probe)
	})
}

// lastSequence returns that of the bucket, as soon as the servers tell it.
func (r *round) lastSequence() (last uint64) {
	r.eventually("the servers tell the bucket's last sequence", healing, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		s, err := r.js.Stream(ctx, stream)
		if err == nil {
			last = s.CachedInfo().State.LastSeq
		}
		return err
	})
	return last
}

func (r *round) killServers() {
	for _, n := range r.servers.Nodes {
		n.Kill()
	}
}

// replaceAll replaces what is in a directory by a copy of another. The
// directory itself stays: it may be a mount.
func replaceAll(dir, from string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(append(errs, os.CopyFS(dir, os.DirFS(from)))...)
}
