// Package lab gives all libraries the same work and measures what becomes of
// it.
package lab

import (
	"errors"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/figure"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/peer"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/site"
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

// Sections returns the names of what Run measures.
func Sections() (names []string) {
	for _, s := range sections {
		names = append(names, s.name)
	}
	return names
}

// Run measures the libraries, each section side by side, so that they meet the
// same machine.
func Run(plan harness.Run, libraries []peer.Library) (results []*figure.Result, err error) {
	var benches []*bench
	defer func() {
		for _, b := range benches {
			err = errors.Join(err, b.site.Stop())
		}
	}()
	for _, lib := range libraries {
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
