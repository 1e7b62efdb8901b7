// Package lab gives all libraries the same work and measures what becomes of it.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/test/compare/internal/figure"
	"github.com/seed-ff2cb582/leader/test/compare/internal/peer"
	"github.com/seed-ff2cb582/leader/test/compare/internal/site"
)

// patience bounds every wait for something that has to happen.
const patience = 60 * time.Second

var errPatience = errors.New("it took too long")

// A Plan says what to measure.
type Plan struct {
	Quick    bool   // a little of everything
	Only     string // the sections whose name contains this
	Progress io.Writer
}

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
	Plan
	ctx    context.Context //nolint:containedctx // of the whole run
	lib    peer.Library
	site   *site.Site
	result *figure.Result
}

// Run measures all libraries, each section side by side, so that they meet the same machine.
func Run(ctx context.Context, plan Plan) (results []*figure.Result, err error) {
	var benches []*bench
	defer func() {
		for _, b := range benches {
			err = errors.Join(err, b.site.Stop())
		}
	}()
	for _, lib := range peer.Libraries() {
		s, err := site.Start(ctx, lib.Store())
		if err != nil {
			return nil, err
		}
		r := &figure.Result{Library: lib.Name(), Version: version(lib.Module()), Store: storeName(lib.Store()), Answers: lib.Answers()}
		benches = append(benches, &bench{Plan: plan, ctx: ctx, lib: lib, site: s, result: r})
		results = append(results, r)
	}
	for _, s := range sections {
		if !strings.Contains(s.name, plan.Only) {
			continue
		}
		if err := s.run(benches, plan.Progress); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s section) run(benches []*bench, progress io.Writer) error {
	errs := make([]error, len(benches))
	var all sync.WaitGroup
	for i, b := range benches {
		all.Go(func() {
			begun := time.Now()
			if err := s.measure(b); err != nil {
				errs[i] = fmt.Errorf("%s of %s: %w", s.name, b.lib.Name(), err)
			}
			fmt.Fprintf(progress, "measured: %s of %s (%.1f s)\n", s.name, b.lib.Name(), time.Since(begun).Seconds())
		})
		if !s.together {
			all.Wait()
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// plain returns the bench of the same library in a bucket as other tools make it, or nil where that makes no difference.
func (b *bench) plain() *bench {
	p, ok := b.lib.(peer.Plainer)
	if !ok {
		return nil
	}
	other := *b
	other.lib, other.result = p.Plain(), &figure.Result{}
	return &other
}

// n is a number of rounds: many, or few in a quick run.
func (b *bench) n(many, few int) int {
	if b.Quick {
		return few
	}
	return many
}

// pause lets time pass.
func (b *bench) pause(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// await looks each millisecond until the condition holds, for no longer than the limit.
func (b *bench) await(what string, limit time.Duration, cond func() bool) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !cond() {
		select {
		case <-look.C:
		case <-end.C:
			return fmt.Errorf("waiting for %s: %w", what, errPatience)
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
	}
	return nil
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
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	var err error
	m.Candidate, err = client.Join(ctx, as)
	return m, err
}

// connect makes a connection of its own, as candidates in different processes have.
func (b *bench) connect() (peer.Client, error) {
	return b.lib.Connect(b.site.Address(), peer.Options{})
}

// leads waits until the member was told that it leads, and returns when.
func (b *bench) leads(m *member) (time.Time, error) {
	select {
	case at := <-m.promoted:
		return at, nil
	case <-time.After(patience):
		return time.Time{}, fmt.Errorf("waiting for %s to lead: %w", m.id, errPatience)
	case <-b.ctx.Done():
		return time.Time{}, b.ctx.Err()
	}
}

// stop has a candidate leave.
func (b *bench) stop(c peer.Candidate) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
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
