// Package completion completes command lines in bash, zsh and fish.
//
// The scripts for the shells are short and know nothing of the commands: they ask the program itself, by the hidden
// command leader complete, what may stand where the cursor is. So what they offer is always what the program takes,
// and the groups are those of the bucket.
package completion

import (
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// Budget is how long the server has for the names of the groups. A person waits with a finger on the tab key.
const Budget = time.Second

// The scripts that leader completion prints.
//
//go:embed scripts
var scripts embed.FS

// A Command is the command line of leader completion.
type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh, fish."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Prints a script that completes commands, flags, their values, and the groups of the bucket, if the server answers
within a second.

Examples:

  # bash: now, and in ~/.bashrc for always; or for everybody.
  source <(leader completion bash)
  leader completion bash > /etc/bash_completion.d/leader
  # zsh, from the next start on.
  leader completion zsh > "${fpath[1]}/_leader"
  # fish.
  leader completion fish > ~/.config/fish/completions/leader.fish

Exit status: 0, or 2 for wrong usage.`
}

// Run prints the script.
func (c Command) Run(std app.Streams) error {
	script, err := scripts.ReadFile("scripts/" + c.Shell)
	if err != nil {
		return err
	}
	_, err = std.Out.Write(script)
	return err
}

// A WordsCommand is what the scripts call: leader complete WORD..., the last of which is to be completed.
type WordsCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints :files if the names of files fit too, and else :words; then a line for each word that fits, with a tab and
// what it means. It never fails: there is nobody to tell.
func (c WordsCommand) Run(parser *kong.Kong, std app.Streams) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	a := complete(parser.Model.Node, words, lookups{groups: groups, contexts: contexts})
	kind := ":words"
	if a.files {
		kind = ":files"
	}
	fmt.Fprintln(std.Out, kind)
	for _, one := range a.candidates {
		fmt.Fprintf(std.Out, "%s\t%s\n", one.word, oneLine(one.help))
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
