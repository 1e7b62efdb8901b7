package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/faults"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/lab"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/mutant"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/process"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // a guarantee was violated, or too little happened to conclude that none was
	exitUsage  = 2
)

// commands are what the program can do.
type commands struct {
	Fire fireCommand `cmd:"" default:"withargs" help:"Hold rounds of random faults, judge them, and print what happened."`
	Soak soakCommand `cmd:"" help:"Hold one long round with a fault now and then, and watch what grows."`
}

type fireCommand struct {
	Seed     uint64        `help:"Decides the first round; each further one has the next seed. Default: the time."`
	Rounds   int           `help:"How many rounds; 0: as many as --for has time for, and six without that."`
	For      time.Duration `help:"Begin nothing new after so long."`
	Episodes int           `help:"Of each round; 0: until each kind of fault has come up."`
	Only     []string      `help:"These faults only, by their names in docs/evidence/chaos.md."`
	Quorum   bool          `help:"Make the servers one of three members of a quorum, whose others have no faults."`
	Page     string        `help:"Write the page of results to this file." type:"path"`
	Clocks   bool          `default:"true" negatable:"" help:"Run the candidates' clocks at different rates."`
	Mutant   string        `help:"Put this bug into the library, and see that it is condemned within five minutes. all: one after the other; list: name them."`
}

// mutantTime is how long a mutant may go uncondemned. Most are in the first
// round, of some ten seconds; by bad luck it took five, of a minute that was
// the limit then.
const mutantTime = 5 * time.Minute

type soakCommand struct {
	Seed  uint64        `help:"Decides the faults. Default: the time."`
	For   time.Duration `default:"24h" help:"How long."`
	Every time.Duration `default:"1m" help:"One fault each."`
	Page  string        `help:"Write the page of results to this file." type:"path"`
}

// streams are the program's.
type streams struct {
	out, stderr io.Writer
}

func run(ctx context.Context, args []string, out, stderr io.Writer) (code int) {
	if natslab.Serving() {
		return exitOK
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	var c commands
	code = -1
	parser, err := kong.New(&c, kong.Name("chaos"), kong.Writers(out, stderr), kong.Exit(func(n int) { code = n }),
		kong.Description("The fire lab: see docs/evidence/chaos.md."))
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return exitUsage
	}
	parsed, err := parser.Parse(args)
	if code >= 0 {
		return code // it was asked for help
	}
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return exitUsage
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(streams{out, stderr}); err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return exitFailed
	}
	return exitOK
}

// Run holds the rounds.
func (f fireCommand) Run(ctx context.Context, s streams) error {
	if f.Seed == 0 {
		f.Seed = uint64(time.Now().Unix())
	}
	if f.Rounds == 0 && f.For == 0 {
		f.Rounds = 6
	}
	switch f.Mutant {
	case "":
		return f.fire(ctx, s)
	case "list":
		for _, m := range mutant.All {
			fmt.Fprintf(s.out, "%-24s %s: %s\n", m.Name, m.Breaks, m.Says)
		}
		return nil
	case "all":
		var errs []error
		for _, m := range mutant.All {
			errs = append(errs, f.condemn(ctx, m, s))
		}
		return errors.Join(errs...)
	}
	m, err := mutant.Find(f.Mutant)
	if err != nil {
		return err
	}
	return f.condemn(ctx, m, s)
}

func (f fireCommand) fire(ctx context.Context, s streams) error {
	if err := faults.Known(f.Only); err != nil {
		return err
	}
	program, cleanUp, err := build(ctx, nil, f.oneClock())
	if err != nil {
		return err
	}
	defer cleanUp()
	res, err := lab.Fire{
		Seed: f.Seed, Rounds: f.Rounds, For: f.For, Episodes: f.Episodes, Only: f.Only, Program: program, Quorum: f.Quorum,
	}.Run(ctx, s.stderr)
	if err != nil {
		return err
	}
	if err := res.Print(s.out); err != nil {
		return err
	}
	if f.Page != "" {
		if err := writePage(f.Page, func(w io.Writer) error { return res.Page(w, f.command()) }); err != nil {
			return err
		}
	}
	return res.Verdict()
}

// errUnwanted is why there is one clock when that was asked for.
var errUnwanted = errors.New("--no-clocks was given")

// oneClock is why all candidates shall have one clock, if they shall.
func (f fireCommand) oneClock() error {
	if f.Clocks {
		return nil
	}
	return errUnwanted
}

// build builds the candidates' program in a directory that cleanUp removes.
func build(ctx context.Context, m *mutant.Mutant, oneClock error) (p process.Program, cleanUp func(), err error) {
	dir, err := os.MkdirTemp("", "leader-candidate-")
	if err != nil {
		return p, nil, err
	}
	if p, err = process.Build(ctx, dir, m, oneClock); err != nil {
		return p, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, func() { _ = os.RemoveAll(dir) }, nil
}

// command is how to get such results. The seed is part of it: it decides what is
// drawn.
func (f fireCommand) command() string {
	if f.For > 0 {
		return fmt.Sprintf("make chaos FOR=%s ARGS=\"--seed %d\"", short(f.For), f.Seed)
	}
	return fmt.Sprintf("go run ./test/labs/chaos --rounds %d --seed %d", f.Rounds, f.Seed)
}

// short is a duration as people write it: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// condemn returns nil if a mutant is condemned in time for what it breaks.
func (f fireCommand) condemn(ctx context.Context, m mutant.Mutant, s streams) error {
	fmt.Fprintf(s.stderr, "mutant %s: %s\n", m.Name, m.Says)
	program, cleanUp, err := build(ctx, &m, f.oneClock())
	if err != nil {
		return err
	}
	defer cleanUp()
	begun := time.Now()
	res, err := lab.Fire{
		Seed: f.Seed, For: mutantTime, Episodes: mutantEpisodes, Only: m.Faults, Program: program, Mutant: m.Name, Breaks: m.Breaks,
		Suits: func(p schedule.Plan) bool { return !m.FastServers || p.ServerRate != 0 },
	}.Run(ctx, s.stderr)
	if err != nil {
		return err
	}
	took := time.Since(begun).Round(time.Second)
	if why := res.Condemned(m.Breaks); why != "" {
		fmt.Fprintf(s.out, "mutant %s: condemned after %v for %s\n", m.Name, took, why)
		return nil
	}
	return fmt.Errorf("mutant %s: not condemned for %s in %v", m.Name, m.Breaks, took)
}

// mutantEpisodes is how many there are in a round, after which it is judged.
const mutantEpisodes = 3

func writePage(path string, write func(io.Writer) error) error {
	var page bytes.Buffer
	if err := write(&page); err != nil {
		return err
	}
	return os.WriteFile(path, page.Bytes(), 0o644)
}

// Run holds the soak.
func (k soakCommand) Run(ctx context.Context, s streams) error {
	if k.Seed == 0 {
		k.Seed = uint64(time.Now().Unix())
	}
	program, cleanUp, err := build(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer cleanUp()
	res, err := lab.Soak{Seed: k.Seed, For: k.For, Every: k.Every, Program: program}.Run(ctx, s.stderr)
	if err != nil {
		return err
	}
	if err := res.Print(s.out); err != nil {
		return err
	}
	if k.Page != "" {
		page := func(w io.Writer) error { return res.Page(w, "make soak FOR="+short(k.For)) }
		if err := writePage(k.Page, page); err != nil {
			return err
		}
	}
	return res.Verdict()
}
