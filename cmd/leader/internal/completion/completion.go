// Package completion completes command lines in bash, zsh, fish and PowerShell.
//
// Cobra's scripts know nothing of the commands: they ask the program itself, by
// the hidden command leader __complete, what may stand where the cursor is. So
// what they offer is what the program takes, and the groups are those of the
// bucket.
package completion

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/tree"
)

// Budget is how long the server has for the names of the groups. A person waits
// with a finger on the tab key.
const Budget = time.Second

// A Command is the command line of leader completion.
type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"The shell: bash, zsh, fish, powershell."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Prints a script that completes commands, flags, their values, and the groups of the bucket and their candidates, if the server answers
within a second. That for bash needs its package bash-completion.

Examples:

  # bash: now, and in ~/.bashrc for always; or for everybody.
  source <(leader completion bash)
  leader completion bash > /etc/bash_completion.d/leader
  # zsh, from the next start on.
  leader completion zsh > "${fpath[1]}/_leader"
  # fish.
  leader completion fish > ~/.config/fish/completions/leader.fish
  # PowerShell, in its profile.
  leader completion powershell | Out-String | Invoke-Expression

Exit status: 0, or 2 for wrong usage.`
}

// Run prints the script.
func (c Command) Run(parser *kong.Kong, std app.Streams) error {
	root := tree.Of(parser.Model.Node)
	switch c.Shell {
	case "bash":
		return root.GenBashCompletionV2(std.Out, true)
	case "zsh":
		return root.GenZshCompletion(std.Out)
	case "fish":
		return root.GenFishCompletion(std.Out, true)
	default:
		return root.GenPowerShellCompletionWithDesc(std.Out)
	}
}

// A WordsCommand is what the scripts call: leader __complete WORD..., the last
// of which is to be completed.
type WordsCommand struct {
	Words []string `arg:"" optional:""`
}

// Run prints a line for each word that fits, and at last what else the shell is
// to do. It never fails, since nobody would see why.
func (c WordsCommand) Run(parser *kong.Kong, std app.Streams, kit app.Kit, env environ.Env) error {
	_ = complete(parser.Model.Node, c.Words, std.Out, lookups{
		contexts: kit.Contexts,
		groups: func(flags map[string]string) []cobra.Completion {
			return asked(flags, kit, env, func(ctx context.Context, s *app.Session) []cobra.Completion { return groups(ctx, s, flags) })
		},
		candidates: func(group string, flags map[string]string) []cobra.Completion {
			return asked(flags, kit, env, func(ctx context.Context, s *app.Session) []cobra.Completion { return candidates(ctx, s, group) })
		},
	})
	return nil
}

// lookups find what depends on the machine and on the server.
type lookups struct {
	// groups returns the groups of the bucket that the flags name, none if that
	// takes too long.
	groups func(flags map[string]string) []cobra.Completion
	// candidates returns the candidates of a group that answer the roll call.
	candidates func(group string, flags map[string]string) []cobra.Completion
	// contexts returns the names of the NATS contexts.
	contexts func() []cobra.Completion
}

// complete writes what may stand in place of the last of the words, which are
// those after the program's name.
func complete(program *kong.Node, words []string, out io.Writer, look lookups) error {
	var errs []error
	var help *cobra.Command
	root := tree.Of(program, func(cmd *cobra.Command, node *kong.Node) {
		// What is not known yet is not wrong yet.
		cmd.FParseErrWhitelist.UnknownFlags = true
		cmd.ValidArgsFunction = look.arguments(tree.Default(node).Positional)
		for _, flag := range tree.Default(node).Flags {
			if !flag.Hidden {
				errs = append(errs, cmd.RegisterFlagCompletionFunc(flag.Name, look.value(flag.Value)))
			}
		}
		if node.Name == "help" {
			cmd.ValidArgsFunction = commands(program)
			help = cmd
		}
	})
	root.SetHelpCommand(help) // or cobra adds its own
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, words...))
	root.SetOut(out)
	root.SetErr(io.Discard)
	root.SilenceErrors, root.SilenceUsage = true, true
	return errors.Join(append(errs, root.Execute())...)
}

// arguments completes what is no flag's. The last argument may take many.
func (l lookups) arguments(of []*kong.Positional) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := len(args)
		if at >= len(of) && len(of) > 0 && of[len(of)-1].IsCumulative() {
			at = len(of) - 1
		}
		if at >= len(of) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return l.value(of[at])(cmd, args, word)
	}
}

// value completes a value of a flag or an argument.
func (l lookups) value(v *kong.Value) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		switch {
		case isFile(v):
			return nil, cobra.ShellCompDirectiveDefault
		case v.Enum != "":
			found = v.EnumSlice()
		case v.Flag != nil && v.Name == "context":
			found = l.contexts()
		case v.Flag != nil && v.Name == "to" && len(args) > 0:
			found = l.candidates(args[0], given(cmd.Flags()))
		case v.Flag == nil && isGroup(v), v.Flag != nil && v.Name == "group":
			found = l.groups(given(cmd.Flags()))
		}
		return starting(word, found), cobra.ShellCompDirectiveNoFileComp
	}
}

// commands completes the argument of leader help.
func commands(program *kong.Node) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		for _, child := range program.Children {
			if !child.Hidden {
				found = append(found, cobra.CompletionWithDesc(child.Name, child.Help))
			}
		}
		return starting(word, found), cobra.ShellCompDirectiveNoFileComp
	}
}

// given returns the values of the flags that are on the line, by their names.
func given(flags *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	flags.Visit(func(f *pflag.Flag) { values[f.Name] = f.Value.String() })
	return values
}

// isGroup reports whether a value names a group. It goes by the name, which is
// what people read in the help.
func isGroup(v *kong.Value) bool { return v.Name == "group" || v.Name == "pattern" }

// isFile reports whether a value is a path. It goes by the type, and takes what
// leader run starts for a file.
func isFile(v *kong.Value) bool {
	switch v.Tag.Type {
	case "path", "existingfile", "existingdir", "filecontent":
		return true
	}
	return v.Flag == nil && v.Name == "program"
}

// starting returns those that begin with the word.
func starting(word string, all []cobra.Completion) []cobra.Completion {
	return slices.DeleteFunc(all, func(c cobra.Completion) bool { return c == "" || !strings.HasPrefix(c, word) })
}
