package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/figure"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/peer"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/site"
)

// A bench is where one library is measured.
type bench struct {
	harness.Run

	lib    peer.Library
	site   *site.Site
	result *figure.Result
}

// plain returns the bench of the same library in a bucket as other tools make
// it, or nil where that makes no difference.
func (b *bench) plain() *bench {
	p, ok := b.lib.(peer.Plainer)
	if !ok {
		return nil
	}
	other := *b
	other.lib, other.result = p.Plain(), &figure.Result{}
	return &other
}

// A member is a candidate, with what it reports.
type member struct {
	peer.Candidate
	id       string
	client   peer.Client
	promoted chan time.Time // when it was told that it leads, latest; holds one
}

// join makes a candidate.
func (b *bench) join(client peer.Client, as peer.Candidacy) (*member, error) {
	m := &member{id: as.ID, client: client, promoted: make(chan time.Time, 1)}
	as.Promoted = func() {
		select {
		case m.promoted <- time.Now():
		default: // an earlier term, of which nobody asked
		}
	}
	ctx, cancel := context.WithTimeout(b.Ctx, harness.Patience)
	defer cancel()
	var err error
	m.Candidate, err = client.Join(ctx, as)
	return m, err
}

// connect makes a connection of its own, as candidates in different processes
// have.
func (b *bench) connect() (peer.Client, error) {
	return b.lib.Connect(b.site.Address(), peer.Options{})
}

// leads waits until the member was told that it leads, and returns when.
func (b *bench) leads(m *member) (time.Time, error) {
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
func (b *bench) stop(c peer.Candidate) error {
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
