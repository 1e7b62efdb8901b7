package completion

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/inspect"
)

// asked has ask look into the bucket that the flags name, and returns nothing if
// that takes too long.
func asked(flags map[string]string, kit app.Kit, env environ.Env, ask func(context.Context, *app.Session) []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), Budget)
	defer cancel()
	found := make(chan []string, 1)
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
			found <- nil // the command itself will report what is wrong
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
func groups(ctx context.Context, s *app.Session, flags map[string]string) (names []string) {
	for _, info := range standings(ctx, s) {
		if info.Reason == leader.ReasonForgotten && flags["all"] == "" {
			continue // as leader ls leaves it out
		}
		names = append(names, meaning(info.Group, described(info.LeaderInfo)))
	}
	return names
}

// standings returns who leads each group of the bucket, none if anything goes
// wrong.
func standings(ctx context.Context, s *app.Session) []app.Standing {
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
	return s.Standings(ctx, infos)
}

// leaders returns the instances that lead groups of the bucket.
func leaders(ctx context.Context, s *app.Session) (names []string) {
	leads := make(map[string]int)
	for _, info := range standings(ctx, s) {
		leads[info.ID]++
	}
	delete(leads, "") // groups without a leader
	for _, id := range slices.Sorted(maps.Keys(leads)) {
		groups := "1 group"
		if n := leads[id]; n > 1 {
			groups = fmt.Sprint(n, " groups")
		}
		names = append(names, meaning(id, "leads "+groups))
	}
	return names
}

// drained returns the instances that are drained.
func drained(ctx context.Context, s *app.Session) (names []string) {
	st, err := s.Store()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Budget/2)
	defer cancel()
	var drains app.Drains
	app.FollowPauses(ctx, st, ">", func(string, *inspect.Pause) {}, drains.Take, cancel)
	for _, order := range drains.Orders() {
		names = append(names, meaning(order.Instance, app.DrainWords(order.By, order.Reason)))
	}
	return names
}

// candidates returns the candidates of a group that answer the roll call.
func candidates(ctx context.Context, s *app.Session, group string) (names []string) {
	// Some candidates may have answered when the time is up.
	ctx, cancel := context.WithTimeout(ctx, Budget/2)
	defer cancel()
	all, _ := s.RollCall(ctx, group)
	for _, c := range all {
		names = append(names, meaning(c.Instance, c.State))
	}
	return names
}

func described(info leader.LeaderInfo) string {
	if info.ID == "" {
		return "no leader"
	}
	return fmt.Sprintf("led by %q", info.ID)
}

// targetOf reads the flags that name the bucket, and the environment variables
// of these flags.
func targetOf(flags map[string]string, kit app.Kit, env environ.Env) (app.Target, bool) {
	var cli struct{ app.Target }
	parser, err := kong.New(&cli, kong.Exit(func(int) {}), kit, env)
	if err != nil {
		return app.Target{}, false
	}
	var args []string
	for _, flag := range parser.Model.Flags {
		// The command's own server would have to be started first.
		if value, given := flags[flag.Name]; given && flag.Name != "dev" && flag.Name != "help" {
			args = append(args, "--"+flag.Name+"="+value)
		}
	}
	if _, err := parser.Parse(args); err != nil {
		return app.Target{}, false
	}
	return cli.Target, !strings.EqualFold(flags["dev"], "true")
}
