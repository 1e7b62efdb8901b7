package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A getter makes the file or directory dir/made, which is to become a server's
// own, and reports its steps to w. dir is an empty directory.
type getter func(ctx context.Context, w io.Writer, dir string) error

// Look reports to w which of the named servers are here; without names, of all.
// It returns an error if one is absent.
func Look(w io.Writer, names ...string) error {
	found, err := named(names)
	if err != nil {
		return err
	}
	var absent []string
	for i := range found {
		path, err := found[i].find()
		if err != nil {
			fmt.Fprintf(w, "servers: %v\n", err)
			absent = append(absent, found[i].name)
			continue
		}
		fmt.Fprintf(w, "servers: %s is here: %s\n", found[i].name, path)
	}
	if len(absent) > 0 {
		return fmt.Errorf("absent: %s", strings.Join(absent, " "))
	}
	return nil
}

// Get gets the named servers that are absent, without names all that are, and
// reports to w what it does before it does it. It goes on after a failure, and
// returns all failures.
func Get(ctx context.Context, w io.Writer, names ...string) error {
	found, err := named(names)
	if err != nil {
		return err
	}
	var failures []error
	for i := range found {
		if err := found[i].install(ctx, w); err != nil {
			failures = append(failures, fmt.Errorf("get %s: %w", found[i].name, err))
		}
	}
	return errors.Join(failures...)
}

func (s *server) install(ctx context.Context, w io.Writer) error {
	if path, err := s.find(); err == nil {
		fmt.Fprintf(w, "servers: %s is here: %s\n", s.name, path)
		return nil
	}
	at, err := s.path()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "servers: %s is absent, and is about to be put into %s: %s, %s, once\n", s.name, at, s.source, s.cost)
	begun := time.Now()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	// An unfinished server has another name: runs may be interrupted, and two
	// may race.
	tmp, err := os.MkdirTemp(filepath.Dir(at), "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	if err := s.get(ctx, w, tmp); err != nil {
		return err
	}
	renamed := os.Rename(filepath.Join(tmp, "made"), at)
	path, err := s.find()
	if err != nil {
		return errors.Join(renamed, err) // otherwise another run was faster
	}
	fmt.Fprintf(w, "servers: %s is here after %.0f s: %s\n", s.name, time.Since(begun).Seconds(), path)
	return nil
}

// run runs a program in a directory with more in its environment, and returns
// its output. The error contains what the program wrote to its standard error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	var wrote []byte
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		wrote = exit.Stderr
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, wrote)
	}
	return string(out), nil
}
