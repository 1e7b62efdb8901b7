// Package lab gives all libraries the same work and measures what becomes of
// it.
package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/test/compare/internal/figure"
	"github.com/seed-ff2cb582/leader/test/compare/internal/peer"
	"github.com/seed-ff2cb582/leader/test/compare/internal/site"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A section measures one thing for one library.
type section struct {
	name     string
	measure  func(*bench) error
	together bool // all libraries at once: they do next to nothing, and only counts are taken
}

var sections = []section{
	{"handover", measureHandover, false},
	{"crash", measureCrash, false},
	{"faults", measureFaults, false},
	{"traffic", measureTraffic, true},
	{"answer", measureAnswer, false},
	{"herd", measureHerd, false},
	{"crowd", measureCrowd, false},
}

// A bench is where one library is measured.
type bench struct {
	harness.Run

	lib    peer.Library
	site   *site.Site
	result *figure.Result
}

// Run measures all libraries, each section side by side, so that they meet the
// same machine.
func Run(plan harness.Run) (results []*figure.Result, err error) {
	var benches []*bench
	defer func() {
		for _, b := range benches {
			err = errors.Join(err, b.site.Stop())
		}
	}()
	for _, lib := range peer.Libraries() {
		s, err := site.Start(plan.Ctx, lib.Store())
		if err != nil {
			return nil, err
		}
		r := &figure.Result{Library: lib.Name(), Version: version(lib.Module()), Store: storeName(lib.Store()), Answers: lib.Answers()}
		benches = append(benches, &bench{Run: plan, lib: lib, site: s, result: r})
		results = append(results, r)
	}
	for _, s := range sections {
		if !plan.Measures(s.name) {
			continue
		}
		if err := s.run(benches); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// run measures the libraries one after another, or all at once.
func (s section) run(benches []*bench) error {
	atATime := 1
	if s.together {
		atATime = len(benches)
	}
	return harness.Each(len(benches), atATime, func(i int) error {
		b := benches[i]
		return b.Measure(s.name+" of "+b.lib.Name(), func() error { return s.measure(b) })
	})
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
