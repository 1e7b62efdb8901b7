package lab

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
	"github.com/seed-ff2cb582/leader/test/internal/measure/site"
)

// A Bench is where one library is measured.
type Bench struct {
	harness.Run

	Lib    peer.Library
	Site   *site.Site
	Result *figure.Result // what was measured
}

// Open starts so many servers for a library.
func Open(plan harness.Run, lib peer.Library, servers int) (*Bench, error) {
	s, err := site.Start(plan.Ctx, lib, servers)
	if err != nil {
		return nil, err
	}
	r := &figure.Result{Library: lib.Name(), Version: peer.Version(lib.Module()), Store: lib.Store().Name(), Answers: lib.Answers()}
	return &Bench{Run: plan, Lib: lib, Site: s, Result: r}, nil
}

// Close ends the servers.
func (b *Bench) Close() error { return b.Site.Stop() }

// plain returns the bench of the same library in a bucket as other tools make
// it, or nil where that makes no difference.
func (b *Bench) plain() *Bench {
	p, ok := b.Lib.(peer.Plainer)
	if !ok {
		return nil
	}
	other := *b
	other.Lib, other.Result = p.Plain(), &figure.Result{}
	return &other
}

// A member is a candidate, with what it reports.
type member struct {
	peer.Candidate
	id       string
	client   peer.Client
	promoted chan time.Time // when the latest report that it leads came; holds one
	renewed  atomic.Int64   // when the latest renewal left that the store acknowledged (Unix time in nanoseconds)
}

// join makes a candidate.
func (b *Bench) join(client peer.Client, as peer.Candidacy) (*member, error) {
	m := &member{id: as.ID, client: client, promoted: make(chan time.Time, 1)}
	as.Promoted = func() {
		select {
		case m.promoted <- time.Now():
		default: // an earlier term, of which nobody asked
		}
	}
	told := as.Renewed
	as.Renewed = func(sent time.Time) {
		m.renewed.Store(sent.UnixNano())
		if told != nil {
			told(sent)
		}
	}
	ctx, cancel := context.WithTimeout(b.Ctx, harness.Patience)
	defer cancel()
	var err error
	m.Candidate, err = client.Join(ctx, as)
	return m, err
}

// connect makes a separate connection, as candidates in different processes
// have.
func (b *Bench) connect() (peer.Client, error) {
	return b.Lib.Connect(b.Site.Address(), peer.Options{})
}

// leads waits until the library reported that the member leads, and returns
// when.
func (b *Bench) leads(m *member) (time.Time, error) {
	select {
	case at := <-m.promoted:
		return at, nil
	case <-time.After(harness.Patience):
		return time.Time{}, fmt.Errorf("waiting for %s to lead: %w", m.id, harness.ErrPatience)
	case <-b.Ctx.Done():
		return time.Time{}, b.Ctx.Err()
	}
}

// stop has a candidate leave.
func (b *Bench) stop(c peer.Candidate) error {
	ctx, cancel := context.WithTimeout(b.Ctx, harness.Patience)
	defer cancel()
	return c.Stop(ctx)
}

// desert ends a candidate that may not reach its store any more.
func desert(c peer.Candidate, client peer.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Stop(ctx)
	client.Close()
}
