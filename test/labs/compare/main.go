// Compare measures this project beside other libraries that elect leaders, in
// one run and by the same work, and judges it by the targets in
// internal/figure. It needs Linux.
//
//	go run .           everything, about twenty minutes; prints the results and
//	                   writes the pages that contain them
//	go run . --quick   a little of everything, which judges safety alone;
//	                   writes nothing
//
// Exit codes: 0, or 1 if a guarantee of this project failed or something could
// not be measured, 2 for a wrong command line. A missed target of speed or cost
// is printed but is not an error: the machine may be busy.
//
// A further library is one file in internal/others: it implements
// peer.Library and is named in Libraries.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/measure/lab"
	"github.com/seed-ff2cb582/leader/test/internal/reporting"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/others"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/page"
	"github.com/seed-ff2cb582/leader/test/labs/compare/internal/stores"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// commands are the commands of the command line.
type commands struct {
	Run   runCommand   `cmd:"" default:"withargs" help:"Measure and judge."`
	Pages pagesCommand `cmd:"" help:"Write the pages again from the figures of the latest full run."`
}

type runCommand struct {
	Quick bool   `help:"Measure a little of everything, judge safety alone, write nothing."`
	Only  string `help:"Measure only what has this in its name (handover, crash, faults, traffic, answer, herd, crowd, stores); write nothing."`
	Kube  bool   `help:"Measure client-go's loop over this project (leaderkube) beside client-go and this project; write nothing."`
	Root  string `help:"The directory of the repository." default:"../../.." type:"existingdir"`
}

// sectionOfStores is measured of this project alone.
const sectionOfStores = "stores"

// Validate refuses a run that would measure nothing.
func (c runCommand) Validate() error {
	names := lab.Sections()
	if !c.Kube {
		names = append(names, sectionOfStores)
	}
	return harness.Run{Only: c.Only}.Validate(names...)
}

type pagesCommand struct {
	Root string `help:"The directory of the repository." default:"../../.." type:"existingdir"`
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if lab.Part(args) {
		if err := lab.Play(append(others.Libraries(), others.Bridges()...), args, stdin, stdout); err != nil {
			fmt.Fprintln(stderr, "compare:", err)
			return 1
		}
		return 0
	}
	var cmd commands
	exited := -1
	parser := kong.Must(&cmd, kong.Name("compare"), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exited = code }))
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0: // it was asked for help
		return exited
	case err != nil:
		fmt.Fprintln(stderr, "compare:", err)
		return 2
	}
	switch parsed.Selected().Name {
	case "pages":
		err = cmd.Pages.run()
	default:
		err = cmd.Run.run(ctx, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "compare:", err)
		return 1
	}
	return 0
}

// saved is where a full run leaves its figures, for make pages.
const saved = ".out/compare.json"

func (c runCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	r := &figure.Report{Command: "make compare", At: time.Now().UTC(), Commit: figure.Commit(ctx, c.Root), Quick: c.Quick, Machine: figure.ThisMachine()}
	libraries := others.Libraries()
	if c.Kube {
		libraries = append(others.Bridges(), libraries[:2]...)
	}
	var err error
	plan := harness.Run{Ctx: ctx, Quick: c.Quick, Only: c.Only, Progress: stderr, Look: time.Millisecond}
	if r.Results, err = lab.Run(plan, libraries); err != nil {
		return err
	}
	// Earlier measurements are shown even if this one fails.
	var failed error
	if plan.Measures(sectionOfStores) && !c.Kube {
		failed = plan.Measure(sectionOfStores, func() (err error) {
			r.Stores, err = stores.Measure(plan, c.Root, "")
			return err
		})
	}
	r.Took = time.Since(r.At)
	r.Machine.LoadEnd = reporting.Load()
	verdicts := r.Judge()
	if _, err := io.WriteString(stdout, page.Text(r, verdicts)); err != nil {
		return err
	}
	if !c.Quick && !c.Kube && c.Only == "" && failed == nil {
		if err := c.save(r); err != nil {
			return err
		}
		if err := page.Write(c.Root, r, verdicts); err != nil {
			return err
		}
	}
	broken := figure.Broken(verdicts)
	if c.Only == "" {
		broken = errors.Join(broken, r.Missing())
	}
	if c.Only == "" && !c.Kube {
		broken = errors.Join(broken, r.MissingOfStores())
	}
	return errors.Join(failed, broken)
}

func (c runCommand) save(r *figure.Report) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(c.Root, saved)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func (c pagesCommand) run() error {
	b, err := os.ReadFile(filepath.Join(c.Root, saved))
	if err != nil {
		return fmt.Errorf("%w: run make compare first", err)
	}
	var r figure.Report
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	return page.Write(c.Root, &r, r.Judge())
}
