// Package lab gives all libraries the same work and measures what becomes of
// it.
package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
	"github.com/seed-ff2cb582/leader/test/internal/measure/site"
)

// A section measures one thing for one library.
type section struct {
	name     string
	measure  func(*Bench) error
	together bool // all libraries at once: they do next to nothing, and only counts are taken
}

var sections = []section{
	{"handover", measureHandover, false},
	{"crash", Crash, false},
	{"faults", measureFaults, false},
	{"traffic", measureTraffic, true},
	{"answer", Answer, false},
	{"herd", Herds, false},
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
	var benches []*Bench
	defer func() {
		for _, b := range benches {
			err = errors.Join(err, b.Close())
		}
	}()
	for _, lib := range libraries {
		b, err := Open(plan, lib, 1)
		if err != nil {
			return nil, err
		}
		benches, results = append(benches, b), append(results, b.Result)
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
func (s section) run(benches []*Bench) error {
	atATime := 1
	if s.together {
		atATime = len(benches)
	}
	return harness.Each(len(benches), atATime, func(i int) error {
		b := benches[i]
		return b.Measure(s.name+" of "+b.Lib.Name(), func() error { return s.measure(b) })
	})
}

// Part reports whether the arguments of a program belong to a process that this
// package starts.
func Part(args []string) bool {
	return len(args) == 2 && (args[0] == site.Part || args[0] == partCandidate || args[0] == partCrowd)
}

const (
	partCandidate = "candidate"
	partCrowd     = "crowd"
)

// Play is such a process: a program passes its arguments on if they are a
// [Part].
func Play(libraries []peer.Library, args []string, stdin io.Reader, stdout io.Writer) error {
	var named struct{ Library string }
	if err := json.Unmarshal([]byte(args[1]), &named); err != nil {
		return err
	}
	lib := peer.Find(named.Library, libraries)
	if lib == nil {
		return fmt.Errorf("no library is called %q", named.Library)
	}
	var role interface {
		Play(lib peer.Library, stdin io.Reader, stdout io.Writer) error
	}
	switch args[0] {
	case site.Part:
		role = new(site.Role)
	case partCandidate:
		role = new(candidate)
	default:
		role = new(crowded)
	}
	if err := json.Unmarshal([]byte(args[1]), role); err != nil {
		return err
	}
	return role.Play(lib, stdin, stdout)
}
