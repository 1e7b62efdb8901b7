// Package reference writes docs/reference/commands.md and the manual page from
// the parser's model of the command line.
package reference

import (
	"bytes"
	"cmp"
	"fmt"
	"go/doc/comment"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/cpuguy83/go-md2man/v2/md2man"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
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

// Markdown returns docs/reference/commands.md. For the name of a command, more
// returns text that follows its help.
func Markdown(model *kong.Application, more func(command string) string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The command line\n\n<!-- Written by go generate ./cmd/leader; edit the help of the commands instead. -->\n\n%s", prose(model.Help))
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
	b.WriteString("\nA flag that two commands or more have, with the same meaning and default, is described once: [the store](#the-store),\n" +
		"[the connection](#the-connection), [output and requests](#output-and-requests), [candidates](#candidates). The section of\n" +
		"each command names those that it has.\n\n")
}

// A group is a section of flags that several commands share.
type group struct {
	title, text string
	flags       []*kong.Flag
}

// shared returns the flags that two commands or more have, in groups.
func shared(model *kong.Application) ([]*group, error) {
	parser, err := kong.New(&struct{ natsconn.Flags }{}, kong.NoDefaultHelp())
	if err != nil {
		return nil, err
	}
	store := &group{title: "The store", text: "Commands that use a store have these flags, except for leader demo. A flag takes precedence over its variable."}
	connection := &group{title: "The connection", text: "Commands that connect to NATS have these flags, with the meaning that they have in the nats command. " +
		"Without a\nserver and a context the command uses the context that nats context select has chosen, and without one\n" +
		"nats://127.0.0.1:4222.", flags: parser.Model.Flags}
	results := &group{title: "Output and requests", text: "Flags of commands that print results, or that ask a leader for something."}
	candidates := &group{title: "Candidates", text: "Flags of commands that campaign, or that serve others for a long time."}
	used := map[string]int{}
	for _, node := range model.Leaves(true) {
		for _, f := range node.Flags {
			id := identity(f)
			used[id]++
			if used[id] != 2 || hidden(f) || has(connection.flags, f) {
				continue
			}
			to := candidates
			switch f.Name {
			case "store", "bucket", "timeout", "dev":
				to = store
			case "output", "all", "why", "by", "yes", "no-wait":
				to = results
			}
			to.flags = append(to.flags, f)
		}
	}
	return []*group{store, connection, results, candidates}, nil
}

func hidden(f *kong.Flag) bool { return f.Hidden || f.Name == "help" || f.Name == "version" }

// commands writes a section for each, and one for each group of flags that
// commands share.
func commands(b *bytes.Buffer, model *kong.Application, more func(string) string) error {
	groups, err := shared(model)
	if err != nil {
		return err
	}
	for _, node := range model.Leaves(true) {
		section(b, node, groups)
		b.WriteString(more(called(node)))
	}
	for _, g := range groups {
		fmt.Fprintf(b, "## %s\n\n%s\n\n```\n%s```\n\n", g.title, g.text, usages(g.flags))
	}
	return nil
}

// section writes what there is to read about a command, and names the flags
// that it shares with others.
func section(b *bytes.Buffer, node *kong.Node, groups []*group) {
	var own []*kong.Flag
	of := map[*group][]string{}
	for at := node; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			if hidden(f) {
				continue
			}
			if i := slices.IndexFunc(groups, func(g *group) bool { return has(g.flags, f) }); i >= 0 {
				of[groups[i]] = append(of[groups[i]], "`--"+f.Name+"`")
			} else {
				own = append(own, f)
			}
		}
	}
	fmt.Fprintf(b, "## %s\n\n%s\n\n", called(node), node.Help)
	if text := prose(help(node)); text != "" {
		fmt.Fprintf(b, "### Synopsis\n\n%s\n\n", text)
	}
	words := []string{called(node)}
	for _, f := range node.Flags {
		if f.Required {
			words = append(words, f.Summary())
		}
	}
	for _, arg := range node.Positional {
		words = append(words, arg.Summary())
	}
	if len(own)+len(of) > 0 {
		words = append(words, "[flags]")
	}
	fmt.Fprintf(b, "```\n%s\n```\n\n", strings.Join(words, " "))
	if len(own)+len(of) > 0 {
		b.WriteString("### Options\n\n")
	}
	if len(own) > 0 {
		fmt.Fprintf(b, "```\n%s```\n\n", usages(own))
	}
	// A command that has all flags of a group refers to the group.
	var links []string
	for _, g := range groups {
		if len(of[g]) == 0 {
			continue
		}
		link := "[" + strings.ToLower(g.title[:1]) + g.title[1:] + "](#" + strings.ReplaceAll(strings.ToLower(g.title), " ", "-") + ")"
		if len(of[g]) < len(g.flags) {
			link += ": " + strings.Join(of[g], ", ")
		}
		links = append(links, link)
	}
	if len(links) > 0 {
		fmt.Fprintf(b, "Shared: %s.\n\n", strings.Join(links, "; "))
	}
}

// usages returns a line or more for each flag, in columns.
func usages(flags []*kong.Flag) string {
	names, longest := make([]string, len(flags)), 0
	for i, f := range flags {
		names[i] = "      --" + f.Name
		if f.Short != 0 {
			names[i] = fmt.Sprintf("  -%c, --%s", f.Short, f.Name)
		}
		if !f.IsBool() && !f.IsCounter() {
			names[i] += " " + cmp.Or(f.PlaceHolder, strings.ToUpper(f.Name))
		}
		longest = max(longest, len(names[i]))
	}
	var b strings.Builder
	for i, f := range flags {
		text := output.Screen{Width: column}.Wrap(environ.Help(f), "")
		if !f.IsBool() && !f.IsCounter() && f.Default != "" && f.Default != "0" {
			text += " (default " + f.Default + ")"
		}
		text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", longest+3))
		fmt.Fprintf(&b, "%-*s   %s\n", longest, names[i], text)
	}
	return b.String()
}

// has reports whether a flag is among others, with the same meaning and default.
func has(all []*kong.Flag, flag *kong.Flag) bool {
	return slices.ContainsFunc(all, func(f *kong.Flag) bool { return identity(f) == identity(flag) })
}

// identity differs between flags of one name that differ in what a page shows.
func identity(f *kong.Flag) string {
	return strings.Join([]string{f.Name, f.PlaceHolder, f.Default, environ.Help(f)}, "\x00")
}

// Lines end at width. The help of a flag leaves room for its name, and ends
// lines between words, not at the hyphens of a flag.
const (
	width  = 118
	column = 80
)

// help returns the command's help below its flags.
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
