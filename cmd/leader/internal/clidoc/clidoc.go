// Package clidoc writes the documentation of the command line from what the parser knows: the manual page, and
// docs/cli.md.
package clidoc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A command is one that people call, with what is said of it.
type command struct {
	*kong.Node
	path string // as it is typed
	// own are its flags without those that it shares with most others.
	own []*kong.Flag
	// connects says that it has the flags of a connection.
	connects bool
}

// A book is all commands, and the flags that they share.
type book struct {
	app      *kong.Application
	commands []command
	shared   []*kong.Flag // the flags of the connection to NATS
	env      []variable
}

// A variable of the environment stands for a flag.
type variable struct {
	name, flag string
	commands   []string // that know it
}

// shareMark is the flag whose presence says that a command connects to NATS.
const shareMark = "js-domain"

// read collects what there is to say. The flags that every connecting command has, under one name with one meaning, are
// told once.
func read(app *kong.Application) *book {
	b := &book{app: app}
	for _, node := range app.Leaves(true) {
		b.commands = append(b.commands, command{Node: node, path: typed(node), connects: flagOf(node, shareMark) != nil})
	}
	b.share()
	for i := range b.commands {
		c := &b.commands[i]
		for _, flag := range c.Flags {
			if !flag.Hidden && flag.Name != "help" && (!c.connects || !b.isShared(flag)) {
				c.own = append(c.own, flag)
			}
		}
	}
	b.environment()
	return b
}

// share finds the flags that all connecting commands have.
func (b *book) share() {
	connecting := slices.DeleteFunc(slices.Clone(b.commands), func(c command) bool { return !c.connects })
	if len(connecting) < 2 {
		return
	}
	for _, flag := range connecting[0].Flags {
		everywhere := !slices.ContainsFunc(connecting, func(c command) bool {
			other := flagOf(c.Node, flag.Name)
			return other == nil || other.Help != flag.Help
		})
		if everywhere && !flag.Hidden && flag.Name != "help" {
			b.shared = append(b.shared, flag)
		}
	}
}

func (b *book) isShared(flag *kong.Flag) bool {
	return slices.ContainsFunc(b.shared, func(s *kong.Flag) bool { return s.Name == flag.Name && s.Help == flag.Help })
}

// environment collects the variables, each once.
func (b *book) environment() {
	at := map[string]int{}
	for _, c := range b.commands {
		for _, flag := range c.Flags {
			for _, env := range flag.Envs {
				if _, known := at[env]; !known {
					at[env] = len(b.env)
					b.env = append(b.env, variable{name: env, flag: "--" + flag.Name})
				}
				v := &b.env[at[env]]
				v.commands = append(v.commands, c.path)
			}
		}
	}
	slices.SortFunc(b.env, func(a, b variable) int { return cmp.Compare(a.name, b.name) })
}

// of names the only command that knows a variable, if there is just one.
func (v variable) of(program string) string {
	if len(v.commands) > 1 {
		return ""
	}
	return " of " + program + " " + v.commands[0]
}

func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, flag := range node.Flags {
		if flag.Name == name {
			return flag
		}
	}
	return nil
}

// typed is how the command is called, like "history show".
func typed(node *kong.Node) string {
	var names []string
	for ; node != nil && node.Type != kong.ApplicationNode; node = node.Parent {
		names = append(names, node.Name)
	}
	slices.Reverse(names)
	return strings.Join(names, " ")
}

// usage is the command with its arguments, like "leader get <group> [flags]".
func (c command) usage(program string) string {
	words := []string{program, c.path}
	for _, flag := range c.Flags {
		if flag.Required {
			words = append(words, flag.Summary())
		}
	}
	for _, arg := range c.Positional {
		words = append(words, arg.Summary())
	}
	return strings.Join(append(words, "[flags]"), " ")
}

// help is what the command says of itself below its flags.
func (c command) help() string {
	detail := c.Detail
	for node := c.Parent; detail == "" && node != nil && node.Type == kong.CommandNode; node = node.Parent {
		detail = node.Detail // a family of commands explains itself at its head
	}
	return detail
}

// spelled is a flag as it is typed, like "-o, --output=FORMAT".
func spelled(flag *kong.Flag) string {
	s := flag.String()
	if flag.Tag != nil && flag.Tag.Negatable != "" && flag.IsBool() {
		s = strings.Replace(s, "--", "--[no-]", 1)
	}
	return s
}

// meaning is what a flag does, with its default and its variables.
func meaning(flag *kong.Flag) string {
	text := flag.Help
	if flag.HasDefault && flag.Default != "" && flag.PlaceHolder != "" && !strings.Contains(strings.ToLower(text), "default") {
		text = strings.TrimSuffix(text, ".") + " (default: " + flag.Default + ")."
	}
	if len(flag.Envs) > 0 {
		text = strings.TrimSuffix(text, ".") + " ($" + strings.Join(flag.Envs, ", $") + ")."
	}
	return text
}
