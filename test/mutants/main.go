// Mutants puts each bug that the field has had back into this library, one by
// one, and demands that a test catches it within three minutes.
//
//	go run ./test/mutants          all of them
//	go run ./test/mutants -bug 4   the mutants of one bug
//	go run ./test/mutants -write docs/evidence/mutants.md
//	                               also write the table into the page; with
//	                               -bug, the rows of that bug
//	go run ./test/mutants -cases   the conditions of the core's case clauses
//	                               instead, which gremlins leaves out
//
// A mutant is a replacement of text in the library's own source, built by the
// go command's -overlay, so no file of the repository changes. First the same
// tests have to pass without it. A mutant that survives, or lives for longer
// than three minutes (not counting the build), makes the exit status 1, and so
// does one whose text is not found: then the code has changed, and the mutant
// has to follow.
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
	"slices"
	"strings"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bug := flags.Int("bug", 0, "only the mutants of the bug of this `number`")
	page := flags.String("write", "", "put the table into this `file`, between its markers")
	cases := flags.Bool("cases", false, "mutate the conditions of the core's case clauses instead")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 || *bug < 0 || *bug >= len(bugs) || *cases && *bug+len(*page) > 0 {
		fmt.Fprintf(stderr, "mutants: want no arguments, a bug from 1 to %d, and -cases alone\n", len(bugs)-1)
		return 2
	}
	var rows []row
	err := inLab(func(l lab) (err error) {
		if *cases {
			return casesIn(ctx, l, stdout, stderr)
		}
		rows, err = hunt(ctx, l, *bug, stderr)
		return err
	})
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	if *cases {
		return 0
	}
	fmt.Fprint(stdout, table(rows))
	bad := slices.ContainsFunc(rows, func(r row) bool { return !r.ok })
	if *page != "" {
		if err := write(*page, rows, *bug); err != nil {
			fmt.Fprintln(stderr, "mutants:", err)
			return 1
		}
	}
	if bad {
		fmt.Fprintln(stderr, "mutants: not all are caught")
		return 1
	}
	return 0
}

// A row is what became of one mutant, or of one cover.
type row struct {
	bug     int
	what    string
	by      string
	seconds float64
	ok      bool
}

// inLab gives f a laboratory.
func inLab(f func(lab) error) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	return errors.Join(f(lab{root: root, dir: dir}), os.RemoveAll(dir))
}

// casesIn demands that no condition of the core can be mutated unnoticed.
func casesIn(ctx context.Context, l lab, stdout, stderr io.Writer) error {
	alive, err := huntCases(ctx, l, stderr)
	if err != nil {
		return err
	}
	for _, name := range alive {
		fmt.Fprintln(stdout, name)
	}
	if len(alive) > 0 {
		return fmt.Errorf("%d conditions can be mutated unnoticed", len(alive))
	}
	return nil
}

// hunt lets the mutants loose and catches them.
func hunt(ctx context.Context, l lab, bug int, progress io.Writer) ([]row, error) {
	wanted := func(n int) bool { return bug == 0 || bug == n }
	if err := l.baseline(ctx, wanted, progress); err != nil {
		return nil, err
	}
	var rows []row
	for _, m := range mutants() {
		if !wanted(m.bug) {
			continue
		}
		binary, err := l.build(ctx, m.check.pkg, m.edits)
		if err != nil {
			return nil, fmt.Errorf("bug %d, %q: %w", m.bug, m.name, err)
		}
		v, err := l.run(ctx, binary, m.check)
		if err != nil {
			return nil, err
		}
		r := row{bug: m.bug, what: m.name, by: v.by, seconds: v.took.Seconds(), ok: !v.passed && v.took < limit}
		if v.passed {
			r.by = "nobody: it survives"
		}
		fmt.Fprintf(progress, "bug %d, %s: %s, %.1f s\n", r.bug, r.what, r.by, r.seconds)
		rows = append(rows, r)
	}
	for _, c := range covers() {
		if wanted(c.bug) {
			// The baseline has shown that it is.
			rows = append(rows, row{bug: c.bug, what: c.why, by: c.check.run, ok: true})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.bug - b.bug })
	return rows, nil
}

// baseline demands that the tests pass without a mutant: else they would catch
// anything.
func (l lab) baseline(ctx context.Context, wanted func(int) bool, progress io.Writer) error {
	var checks []check
	for _, m := range mutants() {
		if wanted(m.bug) {
			checks = append(checks, m.check)
		}
	}
	for _, c := range covers() {
		if wanted(c.bug) {
			checks = append(checks, c.check)
		}
	}
	slices.SortFunc(checks, func(a, b check) int {
		return strings.Compare(a.pkg+"\x00"+a.run+"\x00"+a.args, b.pkg+"\x00"+b.run+"\x00"+b.args)
	})
	checks = slices.Compact(checks)
	built, binary := "", ""
	for _, c := range checks {
		if c.pkg != built {
			var err error
			if binary, err = l.build(ctx, c.pkg, nil); err != nil {
				return err
			}
			built = c.pkg
		}
		v, err := l.run(ctx, binary, c)
		switch {
		case err != nil:
			return err
		case !v.passed:
			return fmt.Errorf("%s %s fails without a mutant:\n%s", c.pkg, c.run, v.output)
		case v.ran == 0:
			return fmt.Errorf("%s %s runs no test", c.pkg, c.run)
		}
		fmt.Fprintf(progress, "without a mutant: %s %s passes, %.1f s\n", c.pkg, c.run, v.took.Seconds())
	}
	return nil
}

// machineName describes where the seconds were measured.
func machineName() string {
	return fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
