package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/belief"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

// A candidate is the configuration with which a separate process takes part.
type candidate struct {
	Library string
	Address string
	Group   string
	ID      string
	Other   string // the ID of the other candidate
	TTL     time.Duration
}

// Play is the process of a candidate. It prints a sample of itself each
// millisecond in which it believes to lead, and whenever something changed,
// until its standard input ends.
func (r candidate) Play(lib peer.Library, stdin io.Reader, stdout io.Writer) error {
	lease, ok := lib.LeaseFor(r.TTL)
	if !ok {
		return fmt.Errorf("%s has no leases of %v", r.Library, r.TTL)
	}
	client, err := lib.Connect(r.Address, peer.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	c, err := client.Join(ctx, peer.Candidacy{Group: r.Group, ID: r.ID, Lease: lease})
	if err != nil {
		client.Close()
		return err
	}
	defer desert(c, client)
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // until the parent closes it, or ends
		close(over)
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var last belief.Sample
	for {
		select {
		case <-tick.C:
		case <-over:
			return nil
		}
		s := belief.Sample{Before: time.Duration(overlap.Now()), Answer: c.IsLeader(), Works: c.Works()}
		s.After = time.Duration(overlap.Now())
		s.Follows = !s.Works && c.Follows(r.Other)
		if s.Answer || s.Works || s.Follows != last.Follows || last.Answer || last.Works {
			if _, err := fmt.Fprintln(stdout, s); err != nil {
				return err
			}
		}
		last = s
	}
}

// An actor is a candidate in a separate process.
type actor struct {
	id      string
	process *harness.Child

	mu      sync.Mutex
	samples []belief.Sample
	fault   error
	read    chan struct{} // closed when all samples are read
}

// act starts a candidate that reaches the store at the address.
func (b *Bench) act(address, group, id, other string, ttl time.Duration) (*actor, error) {
	process, err := harness.StartPart(b.Ctx, partCandidate, candidate{b.Lib.Name(), address, group, id, other, ttl})
	if err != nil {
		return nil, err
	}
	a := &actor{id: id, process: process, read: make(chan struct{})}
	go a.follow(process.Out)
	return a, nil
}

func (a *actor) follow(out io.Reader) {
	defer close(a.read)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s, err := belief.Parse(lines.Text())
		a.mu.Lock()
		a.samples, a.fault = append(a.samples, s), errors.Join(a.fault, err)
		a.mu.Unlock()
	}
}

// latest is the candidate's last report.
func (a *actor) latest() (s belief.Sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.samples); n > 0 {
		s = a.samples[n-1]
	}
	return s
}

func (a *actor) works() bool   { return a.latest().Works }
func (a *actor) follows() bool { return a.latest().Follows }

func (a *actor) freeze() error { return a.process.Signal(syscall.SIGSTOP) }
func (a *actor) thaw() error   { return a.process.Signal(syscall.SIGCONT) }

// end ends the process, and returns its samples.
func (a *actor) end() ([]belief.Sample, error) {
	_ = a.thaw() // a frozen process would not end
	_ = a.process.In.Close()
	<-a.read
	if err := a.process.End(); err != nil {
		return nil, fmt.Errorf("candidate %s: %w", a.id, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.samples, a.fault
}
