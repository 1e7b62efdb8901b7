// Package page writes the results for people: as text, as a page, as a picture,
// and as a short table in the README.
package page

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// A table has a heading, a first line and rows.
type table struct {
	title string
	head  []string
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// markdown writes the table, without its title.
func (t *table) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, r := range t.rows {
		line(r)
	}
	return b.String()
}

// text writes the table in columns, with its title.
func (t *table) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", t.title)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintf(w, "  %s\n", strings.Join(r, "\t"))
	}
	_ = w.Flush() // a Builder takes everything
	return b.String()
}
