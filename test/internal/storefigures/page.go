package storefigures

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Block is a part of docs/reference/stores.md that a command writes, between two
// comments.
type Block string

// The blocks.
const (
	Described Block = "written by make stores: the kinds"
	Measured  Block = "written by make stores"
)

func (b Block) begin() string { return "<!-- " + string(b) + " -->\n" }
func (b Block) end() string   { return "<!-- " + string(b) + ": end -->\n" }

// Of returns what the block has in a page.
func (b Block) Of(page string) (string, error) {
	_, rest, begins := strings.Cut(page, b.begin())
	text, _, ends := strings.Cut(rest, b.end())
	if !begins || !ends {
		return "", fmt.Errorf("the page has no block between %q and %q", b.begin(), b.end())
	}
	return text, nil
}

// Fill writes the block of the page in a file.
func (b Block) Fill(file, text string) error {
	page, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	old, err := b.Of(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	filled := strings.Replace(string(page), b.begin()+old+b.end(), b.begin()+text+b.end(), 1)
	return os.WriteFile(filepath.Clean(file), []byte(filled), 0o644)
}
