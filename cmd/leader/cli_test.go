package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

func TestErrorsHaveTheirExitStatus(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		app.ExitOK:         nil,
		app.ExitFailure:    errors.New("anything"),
		app.ExitUsage:      errors.Join(errors.New("so"), leader.ErrInvalidConfig),
		app.ExitTwoLeaders: errors.Join(app.ErrTwoLeaders, errors.New("and more")),
	} {
		var stderr bytes.Buffer
		if got := complain(&stderr, err); got != want {
			t.Errorf("%v: exit status %d, want %d", err, got, want)
		}
		if (stderr.Len() == 0) != (err == nil) {
			t.Errorf("%v: stderr %q", err, stderr.String())
		}
	}
}

func TestCommandHasTheSameHelpWithoutTheOthers(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	help := func(parser *kong.Kong, line []string) string {
		out.Reset()
		_, _ = parser.Parse(line) // help comes first, whatever else is wrong
		return out.String()
	}
	build := func(opts ...kong.Option) *kong.Kong {
		parser, err := newParser(app.Streams{Out: &out, Err: &out}, nil, func(int) {}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return parser
	}
	whole := build()
	for _, node := range whole.Model.Leaves(false) {
		line := slices.Concat(strings.Fields(node.FullPath())[1:], []string{"--help"})
		part := build(alone(line))
		if got, want := help(part, line), help(whole, line); got != want {
			t.Errorf("%q: %s\nwant %s", line, got, want)
		}
		known, want := len(part.Model.Children), 1
		if slices.Contains([]string{"completion", "man", "__complete"}, line[0]) {
			want = len(whole.Model.Children)
		}
		if known != want {
			t.Errorf("%q is parsed among %d commands, want %d", line, known, want)
		}
	}
}
