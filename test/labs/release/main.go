// Release plans, proves and builds a release of this repository. Nothing is
// published by it.
//
//	go run ./test/labs/release -version v0.1.0 plan       the tags, in the order in which they may be pushed
//	go run ./test/labs/release -version v0.1.0 set        have the modules require each other at the version, in the working tree
//	go run ./test/labs/release -version v0.1.0 prove      serve all modules from a directory, without go.work and replace, and
//	                                                 have the go command resolve each, resolve one that requires all, and
//	                                                 install the command
//	go run ./test/labs/release -version v0.1.0 snapshot   have goreleaser build archives, packages, images, lists of modules, and
//	                                                 sums of them, in .out/release (make release-snapshot)
//
// By .goreleaser.yaml goreleaser calls it for each platform:
//
//	release build FLAGS -o PROGRAM PACKAGE             the program, of the module that a proxy will serve
//	release image PROGRAM OS ARCH FILE                 an image, where the system is linux
//	release list PROGRAM FILE                          the modules that are linked into a program
//
// docs/contributing/releasing.md describes the steps of a release.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	goreleaser := flags.String("goreleaser", "goreleaser", "the `program` that snapshot runs")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var act func(*tree) error
	switch say := sayTo(stdout); flags.Arg(0) {
	case "plan":
		act = func(t *tree) error { return plan(t, *version, say) }
	case "set":
		act = func(t *tree) error { return set(ctx, t, *version) }
	case "prove":
		act = func(t *tree) error { return prove(ctx, t, *version, say) }
	case "snapshot":
		act = func(t *tree) error { return shoot(ctx, t, *version, *goreleaser, stdout, stderr) }
	default:
		return forGoreleaser(ctx, flags.Args(), *version, stdout, stderr)
	}
	if flags.NArg() != 1 {
		return wrongUsage(stderr)
	}
	if err := checkVersion(*version); err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return 2
	}
	t, err := readTree(*root)
	if err == nil {
		err = act(t)
	}
	return exitCode(err, stderr)
}

// forGoreleaser does what goreleaser calls for.
func forGoreleaser(ctx context.Context, args []string, version string, stdout, stderr io.Writer) int {
	switch {
	case len(args) > 0 && args[0] == "build":
		return exitCode(build(ctx, args[1:]), stderr)
	case len(args) == 5 && args[0] == "image":
		return exitCode(writeImage(args[1], args[2], args[3], version, args[4], stdout), stderr)
	case len(args) == 3 && args[0] == "list":
		return exitCode(writeList(args[1], args[2]), stderr)
	}
	return wrongUsage(stderr)
}

func exitCode(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return 1
	}
	return 0
}

func wrongUsage(stderr io.Writer) int {
	fmt.Fprintln(stderr, "release: want plan, set, prove or snapshot")
	return 2
}

func sayTo(w io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

func plan(t *tree, version string, say func(string, ...any)) error {
	for _, m := range t.modules {
		if m.released {
			say("%s", m.tag(version))
		}
	}
	return nil
}

func set(ctx context.Context, t *tree, version string) error {
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
		by, err := m.require(ctx)
		if err != nil {
			return fmt.Errorf("a module that requires all: %w", err)
		}
		say("a module that requires all: %d packages to import", len(by.packages))
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
