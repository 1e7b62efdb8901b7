package process

import (
	"context"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/mutant"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/overlay"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/skew"
)

// A Program is what runs as candidates.
type Program struct {
	Binary string
	// OneClock is why all processes have the machine's clocks, or nil if each
	// process can have clocks that run at a rate of their own.
	OneClock error
}

// program is its import path.
const program = "github.com/seed-ff2cb582/leader/test/chaos/internal/candidate/program"

// Build builds the program in dir, with the bug of a mutant unless that is nil.
// A reason for one clock that is given is kept; where this system offers no
// other clocks, the program says so itself. Build needs the go command, and to
// be called within the workspace.
func Build(ctx context.Context, dir string, m *mutant.Mutant, oneClock error) (p Program, err error) {
	if p.OneClock = oneClock; oneClock == nil {
		p.OneClock = skew.Supported()
	}
	var clocks, bug map[string]string
	if p.OneClock == nil {
		if clocks, err = skew.Overlay(ctx, dir); err != nil {
			return p, err
		}
	}
	if m != nil {
		if bug, err = m.Overlay(ctx, dir); err != nil {
			return p, err
		}
	}
	p.Binary, err = overlay.Build(ctx, dir, program, clocks, bug)
	return p, err
}
