// Release plans, proves and builds a release of this repository. Nothing is
// published by it.
//
//	go run ./test/release -version v0.1.0 plan       the tags, in the order in which they may be pushed
//	go run ./test/release -version v0.1.0 set        have the modules require each other at the version, in the working tree
//	go run ./test/release -version v0.1.0 prove      serve all modules from a directory, without go.work and replace, and
//	                                                 have the go command resolve each and install the command
//	go run ./test/release -version v0.1.0 snapshot   archives, images, lists of what is in them, and sums, in .out/release
//	go run ./test/release list PROGRAM FILE          the modules that are linked into a program, for .goreleaser.yaml
//
// docs/releasing.md says what a release takes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	version := flags.String("version", "v0.1.0-next", "the `version` of all modules")
	root := flags.String("root", ".", "the repository's `directory`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.Arg(0) == "list" && flags.NArg() == 3 {
		if err := writeList(flags.Arg(1), flags.Arg(2)); err != nil {
			fmt.Fprintln(stderr, "release:", err)
			return 1
		}
		return 0
	}
	do, known := map[string]func(context.Context, *tree, string, func(string, ...any)) error{
		"plan": plan, "set": set, "prove": prove, "snapshot": shoot,
	}[flags.Arg(0)]
	if !known || flags.NArg() != 1 {
		fmt.Fprintln(stderr, "release: want plan, set, prove, snapshot, or list and two files")
		return 2
	}
	if err := checkVersion(*version); err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return 2
	}
	t, err := readTree(*root)
	if err == nil {
		err = do(ctx, t, *version, func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) })
	}
	if err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return 1
	}
	return 0
}

func plan(_ context.Context, t *tree, version string, say func(string, ...any)) error {
	for _, m := range t.modules {
		if m.released {
			say("%s", m.tag(version))
		}
	}
	return nil
}

func set(ctx context.Context, t *tree, version string, _ func(string, ...any)) error {
	files, err := t.files(ctx)
	if err != nil {
		return err
	}
	return t.setVersions(files, version)
}

func prove(ctx context.Context, t *tree, version string, say func(string, ...any)) error {
	return inMarket(ctx, t, version, func(m *market) error {
		for _, mod := range m.released() {
			n, err := m.resolve(ctx, mod)
			if err != nil {
				return fmt.Errorf("%s: %w", mod.path, err)
			}
			say("%s: %d packages found", mod.tag(version), n)
		}
		program, err := m.install(ctx, runtime.GOOS+"/"+runtime.GOARCH)
		if err != nil {
			return err
		}
		out, err := output(ctx, m.scratch, nil, program, "version")
		if err != nil {
			return err
		}
		say("go install: %s", out)
		return nil
	})
}

func shoot(ctx context.Context, t *tree, version string, say func(string, ...any)) error {
	return inMarket(ctx, t, version, func(m *market) error {
		s, err := newSnapshot(ctx, m, filepath.Join(t.root, ".out", "release"), say)
		if err != nil {
			return err
		}
		for _, p := range platforms {
			if err := s.add(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
		return s.finish()
	})
}

// inMarket opens the modules in a temporary directory.
func inMarket(ctx context.Context, t *tree, version string, f func(*market) error) (err error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m, err := open(ctx, t, version, dir)
	if err != nil {
		return err
	}
	return f(m)
}
