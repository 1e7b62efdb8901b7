// Package site runs the servers that libraries are measured on: in separate
// processes, on the loopback interface, with their files in a temporary
// directory, and with their default settings except where documented here.
package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// A Site is one server of a store, or a cluster, in a separate process.
type Site struct {
	lib     peer.Library
	servers int
	dir     string
	at      harness.Servers
	process *harness.Child
}

// A Role is what a process needs to know to be the servers of a site.
type Role struct {
	Library string
	Servers int
	Dir     string
	Port    int // 0: any
}

// Part is the first argument of the process of a site; a [Role] follows as
// JSON.
const Part = "serve"

// Play is the process.
func (r Role) Play(lib peer.Library, stdin io.Reader, stdout io.Writer) error {
	return lib.Store().Serve(r.Servers, r.Dir, r.Port, stdin, stdout)
}

// Start starts so many empty servers of the store of a library, and makes what
// the library needs in them.
func Start(ctx context.Context, lib peer.Library, servers int) (_ *Site, err error) {
	s := &Site{lib: lib, servers: servers}
	if s.dir, err = os.MkdirTemp("", "leader-compare-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err := s.Run(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	for { // a cluster that has just been formed refuses buckets for a moment
		attempt, done := context.WithTimeout(ctx, 2*time.Second)
		err = lib.Store().Prepare(attempt, s.at)
		done()
		if err == nil || servers == 1 || ctx.Err() != nil {
			return s, err
		}
	}
}

// At returns where the servers are reached.
func (s *Site) At() harness.Servers { return s.at }

// Address is host:port of the server, or of each, with commas.
func (s *Site) Address() string {
	var all []string
	for _, url := range s.at.URLs {
		_, address, _ := strings.Cut(url, "://")
		all = append(all, address)
	}
	return strings.Join(all, ",")
}

// Run starts the process, on the port and the files that one server had before,
// and returns when it serves.
func (s *Site) Run(ctx context.Context) (err error) {
	role := Role{Library: s.lib.Name(), Servers: s.servers, Dir: s.dir}
	if len(s.at.URLs) > 0 {
		_, port, err := net.SplitHostPort(s.Address())
		if err != nil {
			return err
		}
		if role.Port, err = strconv.Atoi(port); err != nil {
			return err
		}
	}
	if s.process, err = harness.StartPart(ctx, Part, role); err != nil {
		return err
	}
	if err := s.process.Hear(&s.at); err != nil {
		return fmt.Errorf("the server of %s did not start: %w", s.lib.Name(), err)
	}
	return nil
}

// Kill ends the process without a warning (SIGKILL). Its files stay.
func (s *Site) Kill() { s.process.Kill() }

// Stop asks the servers to end, since they remove directories of their own, and
// removes their files.
func (s *Site) Stop() error {
	if s.process != nil {
		_ = s.process.End() // it may have been killed
	}
	return os.RemoveAll(s.dir)
}

// Delete removes what a group keeps in the store.
func (s *Site) Delete(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	return s.lib.Store().Delete(ctx, s.at, group)
}

// Swaps are compare-and-swaps as the store's client does them.
func (s *Site) Swaps(ctx context.Context) (*harness.Swaps, error) {
	return s.lib.Store().Swaps(ctx, s.at)
}

// Messages returns how many messages the servers have received from clients and
// sent to them.
func (s *Site) Messages(ctx context.Context) (in, out int64, err error) {
	return s.lib.Store().Messages(ctx, s.at)
}
