package process

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/mutant"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/overlay"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/skew"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Program is what runs as candidates.
type Program struct {
	Binary string
	// OneClock is why all processes have the machine's clocks, or nil if each
	// process can have clocks that run at a rate of their own.
	OneClock error
	// Servers builds the program of servers whose clocks run at a rate of their
	// own, once, and returns its path. It is nil where OneClock is not.
	Servers func() (binary string, err error)
}

// The import paths of the programs.
const (
	program = "github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate/program"
	servers = "github.com/seed-ff2cb582/leader/test/labs/chaos/internal/arena/server"
)

// Build builds the program in dir, with the bug of a mutant unless m is nil. A
// given reason for one clock is kept. Where this system offers no other clocks,
// the program reports the reason itself. Build needs the go command, and must
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
		p.Servers = sync.OnceValues(func() (string, error) {
			own, err := os.MkdirTemp(dir, "servers-")
			if err != nil {
				return "", err
			}
			return overlay.Build(ctx, own, servers, clocks)
		})
	}
	if m != nil {
		if bug, err = m.Overlay(ctx, dir); err != nil {
			return p, err
		}
	}
	p.Binary, err = overlay.Build(ctx, dir, program, clocks, bug)
	return p, err
}

// ServersAt returns what runs servers whose clocks run at a rate, in
// thousandths of the machine's; 0 is the machine's clock.
func (p Program) ServersAt(rate int) (natslab.Command, error) {
	if rate == 0 {
		return natslab.Command{}, nil
	}
	binary, err := p.Servers()
	return natslab.Command{Path: binary, Env: []string{fmt.Sprintf("%s=%d", skew.Variable, rate)}}, err
}
