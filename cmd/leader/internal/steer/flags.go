package steer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// Flags are what the commands have in common.
type Flags struct {
	app.Target
	output.Format

	Group  string `arg:"" help:"The group."`
	Why    string `placeholder:"TEXT" help:"The reason: it reaches every candidate and observer."`
	By     string `env:"LEADER_BY" placeholder:"NAME" help:"Who asks (default: user@host)."`
	Yes    bool   `short:"y" help:"Do it without asking back."`
	NoWait bool   `help:"Return when the request is stored, without waiting for its effect."`
}

// Validate checks what the parser cannot.
func (f Flags) Validate() error {
	return errors.Join(f.Target.Validate(), app.ValidGroup(f.Group))
}

// run connects and has a desk do its work.
//
// Whether anybody can be asked is settled before it connects. A command in a
// script that waits for an answer would hang, and one that took silence for a
// yes would steer by accident.
func (f Flags) run(ctx context.Context, std app.Streams, name string, work func(context.Context, *desk) error) error {
	if !f.Yes && !isTerminal(std) {
		return fmt.Errorf("%w: --yes: is required where nobody can be asked (the standard input is not a terminal)", app.ErrUsage)
	}
	began := time.Now()
	s, err := f.Open(name)
	if err != nil {
		return err
	}
	defer s.Close()
	if f.Dev {
		began = time.Now() // the start of the server does not count
	}
	// The rights of an operator cover one group's keys, so that the whole
	// bucket is not watched.
	st, err := s.Store()
	if err != nil {
		return fmt.Errorf("%w: --bucket: %w", app.ErrUsage, err)
	}
	control, err := leader.NewControlWithStore(st, cmp.Or(f.By, userAtHost(f.Env)))
	if err != nil {
		return err
	}
	return work(ctx, &desk{flags: f, std: std, session: s, control: control, until: began.Add(f.Timeout)})
}

// userAtHost names who sits here, as far as that is known.
func userAtHost(env environ.Env) string {
	name := env.Get("USER") // without cgo, and for a container's numeric user, there may be no other
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return cmp.Or(name, "unknown") + "@" + host
}

// isTerminal reports whether somebody can answer.
func isTerminal(std app.Streams) bool {
	f, ok := std.In.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// errDeclined ends a command without effect.
var errDeclined = errors.New("not confirmed; nothing was asked")

// confirm describes the action and asks whether to do it.
//
// It is printed also with --yes, for the log of the program that runs the
// command. Everything goes to standard error, since standard output is the
// result's. A signal means no, like any answer but y and yes.
func (d *desk) confirm(ctx context.Context, format string, args ...any) error {
	d.say(format, args...)
	if d.flags.Yes {
		return nil
	}
	asked := time.Now()
	defer func() { d.until = d.until.Add(time.Since(asked)) }()
	fmt.Fprint(d.std.Err, "Go on? [y/N] ")
	answer := make(chan string, 1)
	go func() { // a read cannot be cancelled; it ends with the program
		line, _ := bufio.NewReader(d.std.In).ReadString('\n') // an end without an answer is a no
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
	// The prompt has left the cursor behind it.
	case <-ctx.Done():
		fmt.Fprintln(d.std.Err)
	}
	return errDeclined
}
