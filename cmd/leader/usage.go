package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// helpCommand is --help as a word. Its arguments are parsed as the command that
// it names: see asHelp.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command. Without one, all are listed."`
}

// Help describes the command.
func (helpCommand) Help() string {
	return `Shows the help of a command, as --help after it does.

Exit status: 0; 2 if there is no such command.

Examples:
  leader help
  leader help run
  leader help bucket create`
}

// Run is not reached by a command line that begins with the word.
func (helpCommand) Run() error {
	return fmt.Errorf("%w: help: must be the first word", app.ErrUsage)
}

// asHelp returns the command line that leader help represents.
func asHelp(args []string) []string {
	if len(args) == 0 || args[0] == "help" && len(args) == 1 {
		return []string{"--help"}
	}
	if args[0] == "help" && !strings.HasPrefix(args[1], "-") {
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// errMisplaced returns an error if a flag comes after the program of leader
// run, without -- before it. A flag that both know would silently be taken from
// the program.
func errMisplaced(model *kong.Application, args []string) error {
	if len(args) == 0 || args[0] != "run" || slices.Contains(args, "--") {
		return nil
	}
	program := afterGroup(findCommand(model.Node, "run"), args)
	for _, word := range args[program:] {
		if isFlag(word) {
			fixed := slices.Insert(slices.Clone(args), program, "--")
			for i, s := range fixed {
				fixed[i] = quoted(s)
			}
			return fmt.Errorf("%s comes after the program: write -- before the program, and all that follows is the program's\n  leader %s",
				word, strings.Join(fixed, " "))
		}
	}
	return nil
}

func findCommand(all *kong.Node, name string) *kong.Node {
	return all.Children[slices.IndexFunc(all.Children, func(n *kong.Node) bool { return n.Name == name })]
}

func isFlag(word string) bool { return strings.HasPrefix(word, "-") && word != "-" }

// afterGroup returns the index of the second argument that does not belong to a
// flag.
func afterGroup(node *kong.Node, args []string) int {
	seen := 0
	for i := 1; i < len(args); i++ {
		switch {
		case isFlag(args[i]):
			if takesNext(node, args[i]) {
				i++
			}
		case seen == 1:
			return i
		default:
			seen++
		}
	}
	return len(args)
}

// takesNext reports whether the word after a flag is its value.
func takesNext(node *kong.Node, word string) bool {
	for _, flag := range node.Flags {
		long := strings.HasPrefix(word, "--") && word == "--"+flag.Name
		short := !strings.HasPrefix(word, "--") && flag.Short != 0 && word == "-"+string(flag.Short)
		if long || short {
			return !flag.IsBool()
		}
	}
	return false
}

// quoted returns a word as a shell takes it.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// helpful is the command whose help a command line that could not be parsed
// asks for.
func helpful(err error) string {
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
		for node := wrong.Context.Selected(); node != nil; node = node.Parent {
			if !node.Hidden {
				return node.FullPath()
			}
		}
	}
	return "leader"
}
