package output

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A grid is a table while it is fitted to a screen.
type grid struct {
	heads  []string
	rows   [][]string
	gap    int
	widths []int
}

// empty is shown in a cell without a value.
const empty = "-"

// grid returns the table with as many columns. Text of others cannot steer the
// terminal from there on.
func (r Result) grid(columns int) *grid {
	g := &grid{heads: slices.Clone(r.Head[:columns]), gap: 3}
	for _, row := range r.Rows {
		cells := make([]string, columns)
		for i := range cells {
			cells[i] = empty
			if i < len(row) && row[i] != "" {
				cells[i] = Printable(row[i])
			}
		}
		g.rows = append(g.rows, cells)
	}
	g.measure()
	return g
}

// measure gives each column the width that its cells take.
func (g *grid) measure() {
	g.widths = make([]int, len(g.heads))
	for i, head := range g.heads {
		g.widths[i] = ansi.StringWidth(head)
		for _, row := range g.rows {
			g.widths[i] = max(g.widths[i], ansi.StringWidth(row[i]))
		}
	}
}

func (g *grid) width() int {
	sum := -g.gap
	for _, w := range g.widths {
		sum += w + g.gap
	}
	return sum
}

// fit makes the table as narrow as the screen is: first the gaps, then without
// the columns in which nothing is, then with cells of several lines, then
// without the columns that may go. It returns the heads of the latter.
func (g *grid) fit(width int, minor []string) (left []string) {
	if width == 0 || g.width() <= width {
		return nil
	}
	g.gap = 2
	for i := len(g.heads) - 1; i > 0 && g.width() > width; i-- {
		if !slices.ContainsFunc(g.rows, func(row []string) bool { return row[i] != empty }) {
			g.remove(i)
		}
	}
	for !g.fold(width) && len(minor) > 0 {
		if i := slices.Index(g.heads, minor[0]); i >= 0 {
			left = append(left, minor[0])
			g.remove(i)
		}
		g.measure() // what was folded for nothing may be wide again
		minor = minor[1:]
	}
	return left
}

func (g *grid) remove(i int) {
	g.heads, g.widths = slices.Delete(g.heads, i, i+1), slices.Delete(g.widths, i, i+1)
	for n := range g.rows {
		g.rows[n] = slices.Delete(g.rows[n], i, i+1)
	}
}

// fold narrows the widest columns, to half of what they would take at most, and
// reports whether the table fits then.
func (g *grid) fold(width int) bool {
	least := make([]int, len(g.heads))
	for i, head := range g.heads {
		least[i] = longestWord(head)
		for _, row := range g.rows {
			least[i] = max(least[i], longestWord(row[i]))
		}
		least[i] = max(least[i], (g.widths[i]+1)/2)
	}
	for g.width() > width {
		widest := -1
		for i, w := range g.widths {
			if w > least[i] && (widest < 0 || w > g.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		g.widths[widest]--
	}
	return true
}

func longestWord(text string) (most int) {
	for word := range strings.FieldsSeq(text) {
		most = max(most, ansi.StringWidth(word))
	}
	return most
}

// write appends a row, of as many lines as its cells take.
func (g *grid) write(b *strings.Builder, row []string, paint func(head, cell, text string) string) {
	cells, lines := make([][]string, len(row)), 0
	for i, cell := range row {
		cells[i] = wrap(cell, g.widths[i], "")
		lines = max(lines, len(cells[i]))
	}
	for n := range lines {
		pad := 0
		for i, cell := range cells {
			if n < len(cell) && cell[n] != "" {
				b.WriteString(strings.Repeat(" ", pad) + paint(g.heads[i], row[i], cell[n]))
				pad = -ansi.StringWidth(cell[n])
			}
			pad += g.widths[i] + g.gap
		}
		b.WriteString("\n")
	}
}
