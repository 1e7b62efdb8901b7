// Package reference writes what there is to read about the command line from
// what the parser knows: docs/cli.md, and the manual page made of it.
package reference

import (
	"bytes"
	"fmt"
	"go/doc/comment"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/tree"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/version"
)

// A ManCommand is the command line of leader man.
type ManCommand struct{}

// Help is shown below the flags.
func (ManCommand) Help() string {
	return `One page for all commands, as man reads it.

Examples:

  leader man | man -l -
  leader man > /usr/local/share/man/man1/leader.1

Exit status: 0, or 2 for wrong usage.`
}

// Run prints the page.
func (ManCommand) Run(parser *kong.Kong, std app.Streams) error {
	page, err := manual(parser.Model)
	if err == nil {
		_, err = std.Out.Write(page)
	}
	return err
}

// manual returns the manual page.
func manual(model *kong.Application) ([]byte, error) {
	var b bytes.Buffer
	summary, rest, _ := strings.Cut(model.Help, "\n")
	fmt.Fprintf(&b, "%% %q 1 \"\" %q\n\n# NAME\n\n%s - %s\n\n# DESCRIPTION\n\n%s",
		strings.ToUpper(model.Name), model.Name+" "+version.Of().Version, model.Name, summary, prose(rest))
	err := commands(&b, model, func(string) string { return "" })
	return md2man.Render(b.Bytes()), err
}

// Markdown returns docs/cli.md. What is to be said of a command besides its
// help, by the name that is typed, comes from more.
func Markdown(model *kong.Application, more func(command string) string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The command line\n\n<!-- Written by go generate ./cmd/leader; the words are those of the commands. -->\n\n%s", prose(model.Help))
	contents(&b, model)
	err := commands(&b, model, more)
	return append(bytes.TrimSpace(regexp.MustCompile(`\n{3,}`).ReplaceAll(b.Bytes(), []byte("\n\n"))), '\n'), err
}

// contents lists the commands as the help of the program does.
func contents(b *bytes.Buffer, model *kong.Application) {
	group := ""
	for _, node := range model.Leaves(true) {
		if g := node.ClosestGroup(); g != nil && g.Title != group {
			group = g.Title
			fmt.Fprintf(b, "\n%s\n\n", group)
		}
		fmt.Fprintf(b, "- [%s](#%s): %s\n", called(node), strings.ReplaceAll(called(node), " ", "-"), node.Help)
	}
	b.WriteString("\nMost share the flags of [the connection](#the-connection).\n\n")
}

// commands writes a section for each, and one for the flags of the connection,
// which would fill most of the others.
func commands(b *bytes.Buffer, model *kong.Application, more func(string) string) error {
	shared, err := connection()
	if err != nil {
		return err
	}
	for _, node := range model.Leaves(true) {
		if err := doc.GenMarkdown(section(node, shared), b); err != nil {
			return err
		}
		if slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return has(shared, tree.Flag(f)) }) {
			b.WriteString("And the flags of [the connection](#the-connection).\n\n")
		}
		b.WriteString(more(called(node)))
	}
	fmt.Fprintf(b, "## The connection\n\nEvery command that asks a server has these flags, as the nats command does. "+
		"A flag takes precedence\nover its variable. Where neither a server nor a context is named, it is the context that nats context select has\n"+
		"chosen, and without one nats://127.0.0.1:4222.\n\n```\n%s```\n", shared.FlagUsages())
	return nil
}

// section returns a command by itself, as the generator takes it: alone it
// points to no other page.
func section(node *kong.Node, shared *pflag.FlagSet) *cobra.Command {
	cmd := tree.One(node)
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: called(node)}
	cmd.Long, cmd.DisableAutoGenTag = prose(help(node)), true
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		f.Hidden = f.Hidden || f.Name == "help" || f.Name == "version" || has(shared, f)
		f.Usage = folded(f.Usage)
	})
	return cmd
}

// connection returns the flags by which commands find the server.
func connection() (*pflag.FlagSet, error) {
	parser, err := kong.New(&struct{ natsconn.Flags }{}, kong.NoDefaultHelp())
	if err != nil {
		return nil, err
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	for _, f := range parser.Model.Flags {
		flag := tree.Flag(f)
		flag.Usage = folded(flag.Usage)
		set.AddFlag(flag)
	}
	return set, nil
}

// has reports whether the flag is one of the set, under the same name with the
// same meaning.
func has(set *pflag.FlagSet, flag *pflag.Flag) bool {
	f := set.Lookup(flag.Name)
	return f != nil && f.Usage == folded(flag.Usage)
}

// Lines end at width, and what is said of a flag leaves room for its name.
const (
	width  = 118
	column = 80
)

// folded breaks what is said of a flag into lines, which pflag indents. They end
// between words, and not at the hyphens of a flag.
func folded(s string) string { return output.Screen{Width: column}.Wrap(s, "") }

// help is what the command says of itself below its flags.
func help(node *kong.Node) string {
	for at := node; at != nil && at.Type == kong.CommandNode; at = at.Parent {
		if at.Detail != "" {
			return at.Detail // a family of commands explains itself at its head
		}
	}
	return ""
}

// called is how a command is typed, like "leader history show".
func called(node *kong.Node) string {
	if node.Parent == nil {
		return node.Name
	}
	return called(node.Parent) + " " + node.Name
}

// prose returns as Markdown what is written like a doc comment of Go.
func prose(s string) string {
	var parser comment.Parser
	printer := comment.Printer{TextWidth: width}
	var b strings.Builder
	for _, block := range parser.Parse(s).Content {
		if code, ok := block.(*comment.Code); ok {
			fmt.Fprintf(&b, "```\n%s\n```\n\n", strings.TrimRight(code.Text, "\n"))
			continue
		}
		text := printer.Text(&comment.Doc{Content: []comment.Block{block}})
		// Markdown would take words in angle brackets for HTML.
		b.WriteString(strings.NewReplacer("<", `\<`, "*", `\*`).Replace(string(text)) + "\n")
	}
	return b.String()
}
