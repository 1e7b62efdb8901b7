package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// attempts is how often a download is tried, and pause how long a mirror is left
// alone between two of them: mirrors fail, and lists of packages grow old.
const (
	attempts = 4
	pause    = 5 * time.Second
)

// debian gets a package of Debian (or of a system that descends from it), and
// what the machine lacks of the packages that it needs. They are downloaded and
// unpacked, which needs no root, and not installed.
func debian(name string) getter {
	return func(ctx context.Context, w io.Writer, dir string) error {
		if _, err := exec.LookPath("apt-get"); err != nil {
			return fmt.Errorf("%w: install it by the system's own means", err)
		}
		a := &apt{dir: dir}
		for n := 1; ; n++ {
			err := a.fetch(ctx, w, name, n > 1)
			if err == nil || n == attempts || ctx.Err() != nil {
				return err
			}
			fmt.Fprintf(w, "servers: attempt %d of %d failed, next one in %v: %v\n", n, attempts, pause, err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// An apt runs Debian's package tool without root.
type apt struct {
	dir     string
	options []string
}

func (a *apt) run(ctx context.Context, dir, name string, args ...string) (string, error) {
	return run(ctx, dir, []string{"LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}, name, args...)
}

// fetch downloads a package with what the machine lacks for it, and unpacks
// them below dir/made. It uses the machine's own lists of packages unless they
// are to be fresh, or have nothing to install.
func (a *apt) fetch(ctx context.Context, w io.Writer, name string, fresh bool) error {
	packages, err := a.simulate(ctx, name)
	if fresh || err != nil || len(packages) == 0 {
		packages, err = a.update(ctx, name)
	}
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return fmt.Errorf("apt-get has nothing to install for package %s", name)
	}
	fmt.Fprintf(w, "servers: fetching %s\n", strings.Join(packages, " "))
	return a.unpack(ctx, packages)
}

// update is simulate with fresh lists of packages, which new images do not have.
// The machine's are root's, so that these are in a directory of their own.
func (a *apt) update(ctx context.Context, name string) ([]string, error) {
	lists := filepath.Join(a.dir, "lists")
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return nil, err
	}
	a.options = []string{
		"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + a.dir, "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=",
		"-o", "Acquire::Retries=3",
	}
	if _, err := a.run(ctx, a.dir, "apt-get", append(slices.Clone(a.options), "update")...); err != nil {
		return nil, err
	}
	return a.simulate(ctx, name)
}

// simulate returns the packages that an installation of one would install.
func (a *apt) simulate(ctx context.Context, name string) (packages []string, err error) {
	out, err := a.run(ctx, a.dir, "apt-get", append(slices.Clone(a.options), "-s", "--no-install-recommends", "install", name)...)
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			packages = append(packages, fields[1])
		}
	}
	return packages, err
}

func (a *apt) unpack(ctx context.Context, packages []string) error {
	archives, made := filepath.Join(a.dir, "debs"), filepath.Join(a.dir, "made")
	if err := errors.Join(os.MkdirAll(archives, 0o755), os.MkdirAll(made, 0o755)); err != nil {
		return err
	}
	if _, err := a.run(ctx, archives, "apt-get", slices.Concat(a.options, []string{"download"}, packages)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	for _, file := range files {
		if _, err := a.run(ctx, a.dir, "dpkg", "-x", file, made); err != nil {
			return err
		}
	}
	return err
}
