package clidoc

import (
	"fmt"
	"go/doc/comment"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
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
	_, err := std.Out.Write([]byte(Man(parser.Model, version.Of().Version)))
	return err
}

// Man returns the manual page.
func Man(model *kong.Application, release string) string {
	p := &page{book: read(model)}
	fmt.Fprintf(p, ".TH %s 1 \"\" \"%s %s\"\n", strings.ToUpper(model.Name), model.Name, roff(release))
	p.section("NAME")
	summary, rest, _ := strings.Cut(model.Help, "\n")
	fmt.Fprintf(p, "%s \\- %s\n", model.Name, roff(summary))
	p.section("SYNOPSIS")
	for _, c := range p.commands {
		fmt.Fprintf(p, ".br\n.B %s\n", roff(c.usage(model.Name)))
	}
	p.section("DESCRIPTION")
	p.text(rest)
	for _, c := range p.commands {
		p.section(strings.ToUpper(model.Name + " " + c.path))
		p.line(c.Help)
		p.text(c.help())
		p.flags(c.own)
	}
	p.section("CONNECTION")
	p.line("Every command that asks a server has these flags, as the nats command does.")
	p.flags(p.shared)
	p.section("ENVIRONMENT")
	for _, v := range p.env {
		p.item(v.name, "Stands for "+v.flag+v.of(model.Name)+".")
	}
	return p.String()
}

type page struct {
	*book
	strings.Builder
}

func (p *page) section(title string)    { fmt.Fprintf(p, ".SH %s\n", roff(title)) }
func (p *page) line(s string)           { fmt.Fprintf(p, "%s\n", roff(s)) }
func (p *page) item(term, about string) { fmt.Fprintf(p, ".TP\n.B %s\n%s\n", roff(term), roff(about)) }

func (p *page) flags(flags []*kong.Flag) {
	for _, flag := range flags {
		p.item(spelled(flag), meaning(flag))
	}
}

// text writes what is formatted like a doc comment of Go.
func (p *page) text(s string) {
	var parser comment.Parser
	for _, block := range parser.Parse(s).Content {
		if code, ok := block.(*comment.Code); ok {
			fmt.Fprintf(p, ".PP\n.nf\n.RS\n%s\n.RE\n.fi\n", roff(strings.TrimRight(code.Text, "\n")))
			continue
		}
		printer := comment.Printer{TextWidth: -1}
		fmt.Fprintf(p, ".PP\n%s\n", roff(strings.TrimSpace(string(printer.Text(&comment.Doc{Content: []comment.Block{block}})))))
	}
}

// roff keeps text from being read as requests: a backslash begins one anywhere, a dot or a quote at a line's begin.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
