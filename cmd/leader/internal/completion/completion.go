// Package completion completes command lines in bash, zsh, fish and PowerShell.
//
// The scripts know nothing of the commands: they ask the program itself, by the
// hidden command leader __complete, which words fit where the cursor is. So the
// program offers exactly the words that it accepts, and the groups that the
// bucket has.
package completion

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

//go:embed scripts
var scripts embed.FS

// Budget is how long the server has for the names of the groups. A person waits
// with a finger on the tab key.
const Budget = time.Second

// A Command is the command line of leader completion.
type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"The shell: bash, zsh, fish, powershell."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Prints a script that completes commands, flags, their values, and the groups of the bucket, their candidates, and the instances to drain and undrain, if the server
answers within a second.

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
func (c Command) Run(std app.Streams) error {
	script, err := scripts.ReadFile("scripts/" + c.Shell)
	if err == nil {
		_, err = std.Out.Write(script)
	}
	return err
}

// A WordsCommand is what the scripts call: leader __complete WORD..., the last
// of which is to be completed.
type WordsCommand struct {
	Words []string `arg:"" optional:""`
}

// Run prints a line for each word that fits, with a tab before its meaning. The
// last line is :0 if the shell is to offer names of files, and :4 otherwise, as
// in programs made with cobra, whose scripts may still be installed. Run never
// fails, since nobody would see why.
func (c WordsCommand) Run(parser *kong.Kong, std app.Streams, kit app.Kit, env environ.Env) error {
	found, files := lookups{
		contexts: kit.Contexts,
		groups: func(flags map[string]string) []string {
			return asked(flags, kit, env, func(ctx context.Context, s *app.Session) []string { return groups(ctx, s, flags) })
		},
		candidates: func(group string, flags map[string]string) []string {
			return asked(flags, kit, env, func(ctx context.Context, s *app.Session) []string { return candidates(ctx, s, group) })
		},
		leaders: func(flags map[string]string) []string { return asked(flags, kit, env, leaders) },
		drained: func(flags map[string]string) []string { return asked(flags, kit, env, drained) },
	}.complete(parser.Model.Node, c.Words)
	for _, word := range found {
		fmt.Fprintln(std.Out, word)
	}
	last := ":4"
	if files {
		last = ":0"
	}
	fmt.Fprintln(std.Out, last)
	return nil
}

// meaning adds to a word the first line of its meaning. Neither steers the
// terminal, since any writer of the store chooses names.
func meaning(word, text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return output.Printable(word) + "\t" + output.Printable(text)
}

// lookups find what depends on the machine and on the server.
type lookups struct {
	// groups returns the groups of the bucket that the flags name, none if that
	// takes too long.
	groups func(flags map[string]string) []string
	// candidates returns the candidates of a group that answer the roll call.
	candidates func(group string, flags map[string]string) []string
	// leaders returns the instances that lead groups of the bucket, drained those
	// that are drained.
	leaders, drained func(flags map[string]string) []string
	// contexts returns the names of the NATS contexts.
	contexts func() []string
}

// A line is a command line up to the word that is to be completed. A word that
// is not known yet is not wrong yet.
type line struct {
	node  *kong.Node        // the command
	flags map[string]string // the flags that are given, by name
	args  []string
	// open is the flag whose value is the next word. unknown reports whether
	// that word may be the value of a flag that does not exist.
	open    *kong.Flag
	unknown bool
	plain   bool // after --, where no word is a flag
}

// complete returns the words that fit in place of the last one, or reports that
// it is the name of a file.
func (l lookups) complete(program *kong.Node, words []string) (found []string, files bool) {
	if len(words) == 0 {
		return nil, false
	}
	at, word := line{node: program, flags: make(map[string]string)}, words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		at.take(word)
	}
	name, value, assigned := strings.Cut(word, "=")
	switch flag := at.flag(strings.TrimLeft(name, "-")); {
	case at.open != nil:
		found, files = l.value(&at, at.open.Value)
	case at.unknown:
		return nil, true
	case at.plain || !strings.HasPrefix(word, "-"):
		found, files = l.argument(&at)
	case !assigned:
		found = at.offered()
	case flag != nil:
		word = value
		found, files = l.value(&at, flag.Value)
	}
	// A shell inserts the beginning that all offers share, with the meaning if a
	// word comes twice.
	offers := make(map[string]bool)
	return slices.DeleteFunc(found, func(f string) bool {
		offer, _, _ := strings.Cut(f, "\t")
		again := offers[offer]
		offers[offer] = true
		return again || offer == "" || !strings.HasPrefix(offer, word)
	}), files
}

// take takes in a word before the cursor.
func (l *line) take(word string) {
	l.unknown = false
	name, value, assigned := strings.Cut(word, "=")
	switch {
	case l.open != nil:
		l.flags[l.open.Name], l.open = word, nil
	case l.plain || word == "-" || !strings.HasPrefix(word, "-"):
		for _, child := range l.node.Children {
			if len(l.args) == 0 && (child.Name == word || slices.Contains(child.Aliases, word)) {
				l.node = child
				return
			}
		}
		l.args = append(l.args, word)
	case word == "--":
		l.plain = true
	case strings.HasPrefix(word, "--"):
		l.give(l.flag(name[2:]), value, assigned)
	default:
		// Each letter is a flag, until one takes the rest for its value.
		for i, letter := range word[1:] {
			flag, rest := l.flag(string(letter)), word[i+2:]
			if flag == nil || !isBool(flag) {
				l.give(flag, strings.TrimPrefix(rest, "="), rest != "")
				return
			}
			l.give(flag, "", false)
		}
	}
}

// give takes in a flag, nil if it does not exist.
func (l *line) give(flag *kong.Flag, value string, assigned bool) {
	switch {
	case flag == nil:
		l.unknown = !assigned
	case assigned:
		l.flags[flag.Name] = value
	case isBool(flag):
		l.flags[flag.Name] = "true"
	default:
		l.open = flag
	}
}

// flag returns the flag of a name or a letter, nil if there is none.
func (l *line) flag(name string) *kong.Flag {
	for _, flag := range l.known() {
		if flag.Name == name || flag.Short != 0 && string(flag.Short) == name {
			return flag
		}
	}
	return nil
}

// command returns the command of the line. A family of commands with a default
// among them, such as history, is that command too, so that its flags and
// arguments may follow the family's name.
func (l *line) command() *kong.Node {
	if l.node.DefaultCmd != nil {
		return l.node.DefaultCmd
	}
	return l.node
}

// known returns the flags of the command and of the families that it is in.
func (l *line) known() (all []*kong.Flag) {
	for at := l.command(); at != nil; at = at.Parent {
		all = append(all, at.Flags...)
	}
	return all
}

// offered returns the flags that may follow.
func (l *line) offered() (all []string) {
	for _, flag := range l.known() {
		if _, given := l.flags[flag.Name]; flag.Hidden || given && !flag.IsCumulative() {
			continue
		}
		all = append(all, meaning("--"+flag.Name, environ.Help(flag)))
		if flag.Short != 0 {
			all = append(all, meaning("-"+string(flag.Short), environ.Help(flag)))
		}
	}
	return all
}

// argument completes words that do not belong to a flag: a command, or an
// argument, the last of which may take many.
func (l lookups) argument(at *line) (found []string, files bool) {
	if len(at.args) == 0 {
		found = commands(at.node)
	}
	of := at.command().Positional
	i := len(at.args)
	if i >= len(of) && len(of) > 0 && of[len(of)-1].IsCumulative() {
		i = len(of) - 1
	}
	if i >= len(of) {
		return found, false
	}
	if at.node.Name == "help" {
		return commands(at.node.Parent), false
	}
	more, files := l.value(at, of[i])
	return append(found, more...), files
}

// value completes a value of a flag or an argument.
func (l lookups) value(at *line, v *kong.Value) (found []string, files bool) {
	switch {
	case isFile(v):
		return nil, true
	case v.Enum != "":
		found = v.EnumSlice()
	case v.Flag != nil && v.Name == "context":
		found = l.contexts()
	case v.Flag != nil && v.Name == "to" && len(at.args) > 0:
		found = l.candidates(at.args[0], at.flags)
	case v.Flag == nil && v.Name == "instance" && at.node.Name == "drain":
		found = l.leaders(at.flags)
	case v.Flag == nil && v.Name == "instance" && at.node.Name == "undrain":
		found = l.drained(at.flags)
	case v.Flag == nil && isGroup(v), v.Flag != nil && v.Name == "group":
		found = l.groups(at.flags)
	}
	return found, false
}

// commands returns the commands of a family.
func commands(node *kong.Node) (found []string) {
	for _, child := range node.Children {
		if !child.Hidden {
			found = append(found, meaning(child.Name, child.Help))
		}
	}
	return found
}

// isBool reports whether a flag takes no value from the next word.
func isBool(f *kong.Flag) bool { return f.IsBool() || f.IsCounter() }

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
