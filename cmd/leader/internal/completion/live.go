package completion

import (
	"context"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// asked has ask look into the bucket that the flags name, and returns nothing if
// that takes too long.
func asked(flags map[string]string, kit app.Kit, env environ.Env, ask func(context.Context, *app.Session) []cobra.Completion) []cobra.Completion {
	ctx, cancel := context.WithTimeout(context.Background(), Budget)
	defer cancel()
	found := make(chan []cobra.Completion, 1)
	// Resolving names and connecting ignore the context; the program ends
	// whether they have returned or not.
	go func() {
		target, ok := targetOf(flags, kit, env)
		if !ok {
			found <- nil
			return
		}
		s, err := target.Open("completion", nats.Timeout(Budget), nats.MaxReconnects(0))
		if err != nil {
			found <- nil // the command itself will say what is wrong
			return
		}
		defer s.Close()
		found <- ask(ctx, s)
	}()
	select {
	case names := <-found:
		return names
	case <-ctx.Done():
		return nil
	}
}

// groups returns the groups of the bucket, none if anything goes wrong.
func groups(ctx context.Context, s *app.Session, flags map[string]string) (names []cobra.Completion) {
	st, err := s.Store()
	if err != nil {
		return nil
	}
	infos, err := leader.SnapshotWithStore(ctx, st, ">")
	if err != nil {
		return nil
	}
	// A record may have to be watched for as long as the time allows.
	ctx, cancel := context.WithTimeout(ctx, Budget/2)
	defer cancel()
	for _, info := range s.Standings(ctx, infos) {
		if info.Reason == leader.ReasonForgotten && flags["all"] == "" {
			continue // as leader ls leaves it out
		}
		names = append(names, cobra.CompletionWithDesc(info.Group, described(info.LeaderInfo)))
	}
	return names
}

// candidates returns the candidates of a group that answer the roll call.
func candidates(ctx context.Context, s *app.Session, group string) (names []cobra.Completion) {
	// Some candidates may have answered when the time is up.
	ctx, cancel := context.WithTimeout(ctx, Budget/2)
	defer cancel()
	all, _ := s.RollCall(ctx, group)
	for _, c := range all {
		names = append(names, cobra.CompletionWithDesc(output.Printable(c.Instance), c.State))
	}
	return names
}

func described(info leader.LeaderInfo) string {
	if info.ID == "" {
		return "no leader"
	}
	// Whoever may write a record chooses the name, and the shell prints it.
	return fmt.Sprintf("led by %q", info.ID)
}

// targetOf reads the flags that say where the bucket is, and the variables that
// stand for them.
func targetOf(flags map[string]string, kit app.Kit, env environ.Env) (app.Target, bool) {
	var cli struct{ app.Target }
	parser, err := kong.New(&cli, kong.Exit(func(int) {}), kit, env)
	if err != nil {
		return app.Target{}, false
	}
	var args []string
	for _, flag := range parser.Model.Flags {
		// A server of its own would have to be started first.
		if value, given := flags[flag.Name]; given && flag.Name != "dev" && flag.Name != "help" {
			args = append(args, "--"+flag.Name+"="+value)
		}
	}
	if _, err := parser.Parse(args); err != nil {
		return app.Target{}, false
	}
	return cli.Target, !strings.EqualFold(flags["dev"], "true")
}
