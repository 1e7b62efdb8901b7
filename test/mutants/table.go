package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const tableHead = "| bug | | mutant, or why there is none | caught by | seconds |\n| --- | --- | --- | --- | --- |\n"

// lines are the lines of the page's table.
func lines(rows []row) []string {
	all := make([]string, 0, len(rows))
	for _, r := range rows {
		seconds := ""
		if r.seconds > 0 {
			seconds = fmt.Sprintf("%.1f", r.seconds)
		}
		by := strings.NewReplacer("^", "", "$", "", "(", "", ")", "", "|", ", ").Replace(r.by)
		all = append(all, fmt.Sprintf("%s%s | %s | %s | %s |\n", numbered(r.bug), bugs[r.bug], r.what, by, seconds))
	}
	return all
}

// numbered is how the lines of a bug begin.
func numbered(bug int) string { return fmt.Sprintf("| %d | ", bug) }

func table(rows []row) string { return tableHead + strings.Join(lines(rows), "") }

// The markers between which the page has the table.
const (
	beginMark = "<!-- mutants:begin, written by make mutants -->\n"
	endMark   = "<!-- mutants:end -->\n"
)

// write puts the rows into the page's table. Those of one bug take the place of
// its rows before.
func write(page string, rows []row, bug int) error {
	b, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := merge(string(b), lines(rows), bug)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(text), 0o600)
}

func merge(page string, fresh []string, bug int) (string, error) {
	head, rest, ok := strings.Cut(page, beginMark)
	old, tail, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return "", fmt.Errorf("no markers for the table: %q and %q", beginMark, endMark)
	}
	var all []string
	for n := 1; n < len(bugs); n++ {
		of := func(line string) bool { return strings.HasPrefix(line, numbered(n)) }
		from := fresh
		if bug != 0 && bug != n {
			from = slices.Collect(strings.Lines(old))
		}
		for _, line := range from {
			if of(line) {
				all = append(all, line)
			}
		}
	}
	return fmt.Sprintf("%s%s\n%s%s\n%d rows; the latest of %s (%s).\n\n%s%s", head, beginMark, tableHead, strings.Join(all, ""),
		len(all), time.Now().UTC().Format("2 January 2006"), machineName(), endMark, tail), nil
}
