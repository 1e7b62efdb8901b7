package clidoc

import (
	"bytes"
	"fmt"
	"go/doc/comment"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// width is where lines of Markdown end, where they may.
const width = 120

// Markdown returns docs/cli.md. fields are those of the JSON that a command prints, by the command as it is typed.
func Markdown(app *kong.Application, fields map[string][]Field) []byte {
	m := &markdown{book: read(app)}
	m.para("# The command line")
	m.para("<!-- Written by go generate ./cmd/leader; the words are those of the commands. -->")
	m.text(app.Help)
	m.contents()
	for _, c := range m.commands {
		m.command(c, fields[c.path])
	}
	m.connection()
	return append(bytes.TrimSpace(regexp.MustCompile(`\n{3,}`).ReplaceAll(m.Bytes(), []byte("\n\n"))), '\n')
}

type markdown struct {
	*book
	bytes.Buffer
}

func (m *markdown) para(s string) { fmt.Fprintf(m, "%s\n\n", s) }

// text writes what is formatted like a doc comment of Go.
func (m *markdown) text(s string) {
	var parser comment.Parser
	printer := comment.Printer{TextWidth: width - 2} // room for what is escaped
	for _, block := range parser.Parse(s).Content {
		one := &comment.Doc{Content: []comment.Block{block}}
		if verbatim, ok := block.(*comment.Code); ok {
			m.para("```\n" + strings.TrimRight(verbatim.Text, "\n") + "\n```")
			continue
		}
		m.para(escaped(strings.TrimSpace(string(printer.Text(one)))))
	}
}

// escaped keeps words in angle brackets, which Markdown would take for HTML, and pairs of asterisks.
func escaped(s string) string { return strings.NewReplacer("<", `\<`, "*", `\*`).Replace(s) }

func (m *markdown) contents() {
	group := ""
	for _, c := range m.commands {
		if g := c.ClosestGroup(); g != nil && g.Title != group {
			group = g.Title
			fmt.Fprintf(m, "\n%s\n\n", group)
		}
		m.item(fmt.Sprintf("[leader %s](#leader-%s): %s", c.path, strings.ReplaceAll(c.path, " ", "-"), c.Help))
	}
	m.para("\nWhat the commands have in common: [the connection](#the-connection), [the environment](#the-environment).")
}

func (m *markdown) command(c command, fields []Field) {
	m.para("## leader " + c.path)
	m.para("```\n" + c.usage(m.app.Name) + "\n```")
	m.para(escaped(c.Help))
	m.text(c.help())
	for _, arg := range c.Positional {
		m.item(code(arg.Summary()) + ": " + escaped(arg.Help))
	}
	m.flags(c.own)
	if c.connects {
		m.para("\nAnd the flags of [the connection](#the-connection).")
	} else {
		m.para("")
	}
	if len(fields) > 0 {
		m.para("`-o json` prints:")
		for _, f := range fields {
			m.item(code(f.Path) + " " + f.Type + colon(escaped(f.Help)))
		}
		m.para("")
	}
}

// item writes one of a list, in lines of the width.
func (m *markdown) item(s string) {
	column := 1
	m.WriteString("-")
	for word := range strings.FieldsSeq(s) {
		if column+1+len(word) > width {
			m.WriteString("\n ")
			column = 1
		}
		m.WriteString(" " + word)
		column += 1 + len(word)
	}
	m.WriteString("\n")
}

func code(s string) string { return "`" + s + "`" }

func colon(help string) string {
	if help == "" {
		return ""
	}
	return ": " + help
}

func (m *markdown) flags(flags []*kong.Flag) {
	for _, flag := range flags {
		m.item(code(spelled(flag)) + ": " + escaped(meaning(flag)))
	}
}

func (m *markdown) connection() {
	m.para("## The connection")
	m.para("Every command that asks a server has these flags, as the nats command does.")
	m.flags(m.shared)
	m.para("\n## The environment")
	m.para("A flag goes before its variable.")
	for _, v := range m.env {
		m.item(code(v.name) + ": " + code(v.flag) + v.of(m.app.Name))
	}
	m.para("\nContexts are those of the nats command, in `$XDG_CONFIG_HOME/nats/context`, or `~/.config`. Where no server " +
		"and no\ncontext is named, the context that `nats context select` chose is taken.")
}
