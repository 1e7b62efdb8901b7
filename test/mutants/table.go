package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// table is the table of the page. A bug's name stands beside its first mutant.
func table(rows []row) string {
	var b strings.Builder
	fmt.Fprint(&b, "| bug | | mutant, or why there is none | caught by | seconds |\n| --- | --- | --- | --- | --- |\n")
	last := 0
	for _, r := range rows {
		number, name := "", ""
		if r.bug != last {
			number, name = fmt.Sprint(r.bug), bugs[r.bug]
		}
		last = r.bug
		seconds := ""
		if r.seconds > 0 {
			seconds = fmt.Sprintf("%.1f", r.seconds)
		}
		by := strings.NewReplacer("^", "", "$", "", "(", "", ")", "", "|", ", ").Replace(r.by)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", number, name, r.what, by, seconds)
	}
	return b.String()
}

// The markers between which the page has the table.
const (
	beginMark = "<!-- mutants:begin, written by make mutants -->\n"
	endMark   = "<!-- mutants:end -->\n"
)

// write puts the table into the page.
func write(page string, rows []row) error {
	b, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), beginMark)
	_, tail, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers for the table", page)
	}
	text := fmt.Sprintf("%s%s\n%s\n%d mutants and covers, on %s (%s).\n\n%s%s",
		head, beginMark, table(rows), len(rows), time.Now().UTC().Format("2 January 2006"), machineName(), endMark, tail)
	return os.WriteFile(page, []byte(text), 0o600)
}
