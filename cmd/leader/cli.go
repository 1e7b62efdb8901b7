package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/agent"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/announce"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/bucket"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/campaign"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/completion"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/contexts"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/dash"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/demo"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devnats"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/doctor"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/exporter"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/proxy"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/reference"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/guard"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/stores"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/version"
)

// A cli is the set of commands. Each is a struct of flags with a method Run,
// which may take a context.Context and app.Streams. The last two blocks are not
// for people, and the last one also holds what is not a command.
type cli struct {
	Demo     demo.Command     `cmd:"" group:"lead" help:"Watch a live election, and break it."`
	Run      runner.Command   `cmd:"" group:"lead" help:"Run a program only while this host leads."`
	Agent    agent.Command    `cmd:"" group:"lead" help:"Campaign on behalf of programs in any language, over HTTP."`
	Campaign campaign.Command `cmd:"" group:"lead" help:"Campaign without work, to try things out."`

	Ls       read.ListCommand    `cmd:"" group:"look" help:"List groups and who leads them."`
	Get      read.GetCommand     `cmd:"" group:"look" help:"Show a group in full, with its candidates."`
	Watch    read.WatchCommand   `cmd:"" group:"look" help:"Print changes of leaders as they come."`
	History  read.HistoryCommand `cmd:"" group:"look" help:"Who led when, and why that changed."`
	Wait     read.WaitCommand    `cmd:"" group:"look" help:"Wait until a group is led, or vacant."`
	Token    read.TokenCommand   `cmd:"" group:"look" help:"Ask whether terms and proofs are good; make proofs."`
	Dash     dash.Command        `cmd:"" group:"look" help:"Serve a page that shows every group, live."`
	Exporter exporter.Command    `cmd:"" group:"look" help:"Serve Prometheus metrics of every group."`
	Proxy    proxy.Command       `cmd:"" group:"look" help:"Carry TCP connections to the leader."`
	Announce announce.Command    `cmd:"" group:"look" help:"Keep the leader's entry in Consul, etcd or Kubernetes."`

	StepDown steer.StepDownCommand `cmd:"" name:"step-down" group:"steer" help:"Have the leader of a group leave."`
	Transfer steer.TransferCommand `cmd:"" group:"steer" help:"Have the leader of a group hand over to another candidate."`
	Pause    steer.PauseCommand    `cmd:"" group:"steer" help:"Keep everybody from leading a group."`
	Resume   steer.ResumeCommand   `cmd:"" group:"steer" help:"End the pause of a group."`

	Drain   steer.DrainCommand   `cmd:"" group:"steer" help:"Have an instance hand over all that it leads, and campaign for nothing."`
	Undrain steer.UndrainCommand `cmd:"" group:"steer" help:"End the drain of an instance."`

	Vacate steer.VacateCommand `cmd:"" group:"steer" help:"End the record of a holder that is gone."`
	Forget steer.ForgetCommand `cmd:"" group:"steer" help:"Mark a group that is gone permanently."`

	Bucket     bucket.Command       `cmd:"" group:"setup" help:"Make a bucket for elections, or examine one."`
	Doctor     doctor.Command       `cmd:"" group:"setup" help:"Examine the servers, the bucket, and what the user may do."`
	HelpOf     helpCommand          `cmd:"" name:"help" group:"setup" help:"Show the help of a command."`
	Version    version.Command      `cmd:"" group:"setup" help:"Show the version of the program."`
	Completion completion.Command   `cmd:"" group:"setup" help:"Print a script that completes command lines."`
	Man        reference.ManCommand `cmd:"" group:"setup" help:"Print the manual page."`

	RunGuard   guard.Command           `cmd:"" name:"run-guard" hidden:"" help:"What starts and ends the program of leader run."`
	DemoWorker demo.WorkerCommand      `cmd:"" name:"demo-worker" hidden:"" help:"One candidate of the demo, steered through its standard input."`
	Complete   completion.WordsCommand `cmd:"" name:"__complete" hidden:"" passthrough:"" help:"What the scripts of leader completion ask."`

	ShowVersion version.Flag `name:"version" help:"Show the version of the program."`
}

const description = `Leader election over NATS JetStream.

Exit status: 0 success, 1 failure, 2 wrong usage, 3 two leaders seen by the demo, 4 no such group or leader,
5 refused (by the server, or a permission or the bucket is missing), 6 timeout. The status of leader run is its command's.

SIGHUP and SIGINT end no command that was started while they were ignored, as nohup does and & in a script.`

// newParser returns what the commands are found by. exit takes the place of
// os.Exit.
func newParser(std app.Streams, env environ.Env, exit func(int), opts ...kong.Option) (*kong.Kong, error) {
	return kong.New(&cli{Doctor: doctor.Command{Forms: stores.Forms()}}, append([]kong.Option{
		kong.Name("leader"), kong.Description(description),
		kong.Writers(std.Out, std.Err), kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "lead", Title: "Lead:"},
			{Key: "look", Title: "Look:"},
			{Key: "steer", Title: "Steer:"},
			{Key: "setup", Title: "Set up:"},
		}),
		kong.Bind(std), env, kit(), kong.PostBuild(demo.Unexported),
		kong.KindMapper(reflect.String, kong.MapperFunc(verbatim)),
	}, opts...)...)
}

// kit is what no other package links.
func kit() app.Kit {
	return app.Kit{
		Drivers: stores.Drivers(), Absent: stores.Absent, Settings: contexts.Settings, Contexts: contexts.Names,
		Serve: func(port int) (app.Server, error) { return devnats.Start(port) },
	}
}

// alone returns an option by which the parser knows the command that the line
// begins with, and no other: to build them all takes longer than most commands
// do. It knows all of them if the line begins with no command, or with one that
// shows the others.
func alone(line []string) kong.Option {
	all := kong.OptionFunc(func(*kong.Kong) error { return nil })
	if len(line) == 0 || slices.Contains([]string{"completion", "man", "__complete"}, line[0]) {
		return all
	}
	var others []string
	known := false
	for field := range reflect.TypeFor[cli]().Fields() {
		_, command := field.Tag.Lookup("cmd")
		switch {
		case !command:
		case line[0] == cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)):
			known = true
		default:
			others = append(others, field.Name)
		}
	}
	if !known {
		return all
	}
	return kong.IgnoreFields(`^cli\.(` + strings.Join(others, "|") + `)$`)
}

// verbatim takes a value as it is. Kong's own way is through JSON, which has no
// bytes that are not UTF-8, and programs and files may be named so.
func verbatim(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	target.SetString(fmt.Sprint(token.Value)) // from the line, the environment or a tag: a string
	return nil
}

// run runs the command of a command line until it has ended or ctx is done, and
// returns the exit status. It reads no variables but those of env, and may be
// called concurrently; only leader run and leader run-guard need their own
// process, since they handle all its children and signals.
func run(ctx context.Context, args []string, env environ.Env, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	ctx, unread := context.WithCancel(ctx)
	defer unread()
	std := app.Streams{In: stdin, Out: watched(stdout, unread), Err: output.Prose(stderr)}
	line, helped := asHelp(args), false
	// The command's streams. Help is written to std, which may be a terminal.
	own := std
	if len(line) > 0 && slices.Contains(staying(), line[0]) {
		data, prose := output.NewQueue(std.Out), output.NewQueue(std.Err)
		own.Out, own.Err = data, prose
		defer func() {
			if err := data.Close(lastWords); err != nil && status == app.ExitOK {
				status = complain(prose, err)
			}
			_ = prose.Close(lastWords) // no reader is left
		}()
	}
	parser, err := newParser(std, env, func(int) { helped = true },
		alone(line), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(own))
	if err != nil {
		return complain(own.Err, err)
	}
	if err := errMisplaced(parser.Model, args); err != nil {
		return misused(own.Err, err, "leader run")
	}
	command, err := parser.Parse(line)
	switch {
	case helped:
		return app.ExitOK
	case err != nil:
		return misused(own.Err, err, helpful(err))
	}
	unused(own.Err, command, env)
	return complain(own.Err, command.Run())
}

// staying returns the commands that never block on their output, since
// elections, connections and probes of others depend on them.
func staying() []string {
	return []string{"run", "agent", "campaign", "proxy", "announce", "dash", "exporter"}
}

// lastWords bounds the wait for a reader at the end of such a command.
const lastWords = time.Second

// unused warns that --dev or the demo replaces the server that the environment
// names. A user who always exports NATS_URL may still try things out, and must
// not take the samples for that server's elections.
func unused(stderr io.Writer, command *kong.Context, env environ.Env) {
	names := natsconn.Exported(env)
	verb := "is"
	switch len(names) {
	case 0:
		return
	case 2:
		verb = "are"
	}
	exported := strings.Join(names, " and ")
	given := map[string]bool{}
	for _, flag := range command.Flags() {
		given[flag.Name] = !flag.Target.IsZero()
	}
	switch {
	case given["dev"]:
		fmt.Fprintf(stderr, "leader: --dev: sample elections on a separate server; %s %s not used\n", exported, verb)
	case command.Command() == "demo" && !given["server"] && !given["context"] && !given["store"]:
		fmt.Fprintf(stderr, "leader: demo: on a separate server; %s %s not used (--server, --context)\n", exported, verb)
	}
}

// misused prints what is wrong with a command line, and which help describes
// it.
func misused(stderr io.Writer, err error, command string) int {
	app.Say(stderr, err)
	fmt.Fprintf(stderr, "leader: see %s --help\n", command)
	return app.ExitUsage
}

// complain prints an error, and returns its exit status.
func complain(stderr io.Writer, err error) int {
	if err == nil {
		return app.ExitOK
	}
	if exit, ok := errors.AsType[*app.ExitError](err); ok {
		return exit.Code
	}
	app.Say(stderr, err)
	return app.ExitCode(err)
}
