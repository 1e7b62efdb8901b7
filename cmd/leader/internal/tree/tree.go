// Package tree states the commands, which kong parses, as commands of cobra.
// Cobra's generators then write what kong has none for: the completion of
// command lines, the reference and the manual page. Nothing is run by cobra.
package tree

import (
	"strings"

	"github.com/alecthomas/kong"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
)

// An Option adds to each command as it is made of its node.
type Option func(*cobra.Command, *kong.Node)

// Of returns the command of a node, with all that people may call below it.
func Of(node *kong.Node, opts ...Option) *cobra.Command {
	cmd := One(node, opts...)
	for _, child := range node.Children {
		if !child.Hidden {
			cmd.AddCommand(Of(child, opts...))
		}
	}
	return cmd
}

// One returns the command of a node alone.
//
// A family of commands with a default among them, such as history, is that
// command too, so that its flags and arguments may follow the family's name.
func One(node *kong.Node, opts ...Option) *cobra.Command {
	cmd := &cobra.Command{
		Use: Use(node), Aliases: node.Aliases, Short: node.Help,
		Run: func(*cobra.Command, []string) {}, // what has none is left out
	}
	for at := Default(node); at != nil; at = at.Parent {
		for _, flag := range at.Flags {
			if cmd.Flags().Lookup(flag.Name) == nil {
				cmd.Flags().AddFlag(Flag(flag))
			}
		}
	}
	for _, opt := range opts {
		opt(cmd, node)
	}
	return cmd
}

// Default returns the command that a family's name stands for, or the node
// itself.
func Default(node *kong.Node) *kong.Node {
	if node.DefaultCmd != nil {
		return node.DefaultCmd
	}
	return node
}

// Use is the line of a command, with the flags that it cannot do without.
func Use(node *kong.Node) string {
	words := []string{node.Name}
	for _, flag := range node.Flags {
		if flag.Required {
			words = append(words, flag.Summary())
		}
	}
	for _, arg := range node.Positional {
		words = append(words, arg.Summary())
	}
	return strings.Join(words, " ")
}

// Flag returns a flag of kong as one of cobra.
func Flag(f *kong.Flag) *pflag.Flag {
	flag := &pflag.Flag{
		Name: f.Name, Usage: environ.Help(f), Hidden: f.Hidden, DefValue: f.Default, Value: &value{kind: placeholder(f)},
	}
	if f.Short != 0 {
		flag.Shorthand = string(f.Short)
	}
	if f.IsBool() || f.IsCounter() {
		flag.NoOptDefVal, flag.DefValue = "true", ""
	}
	if f.IsCumulative() {
		flag.Value = &list{value{kind: placeholder(f)}}
	}
	return flag
}

// placeholder stands in a help for the value of a flag.
func placeholder(f *kong.Flag) string {
	switch {
	case f.IsBool() || f.IsCounter():
		return "bool"
	case f.PlaceHolder != "":
		return f.PlaceHolder
	default:
		return strings.ToUpper(f.Name)
	}
}

// A value takes what is typed; only kong knows what is right.
type value struct{ text, kind string }

func (v *value) String() string     { return v.text }
func (v *value) Type() string       { return v.kind }
func (v *value) Set(s string) error { v.text = s; return nil }

// A list is a value of a flag that may be given again. Cobra asks for GetSlice
// to know one.
type list struct{ value }

func (l *list) GetSlice() []string { return []string{l.text} }
