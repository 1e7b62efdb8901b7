// Package reporting is what the reports of the labs and the benchmarks have in
// common: where they were made, and paragraphs of Markdown.
package reporting

import (
	"bufio"
	"os"
	"strings"
	"unicode/utf8"
)

// CPU is the processor's name, where the system reports it.
func CPU() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer func() { _ = f.Close() }() // it was read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Load is the load average over one minute, or "unknown": above the number of
// cores figures of speed are worth little.
func Load() string {
	one, _, _ := strings.Cut(Loads(), " ")
	return one
}

// Loads are the load averages over 1, 5 and 15 minutes, or "unknown".
func Loads() string {
	b, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// width is the line width of the Markdown in this project, in characters.
const width = 120

// Fill breaks a paragraph into lines of at most 120 characters. A longer word
// has a separate line.
func Fill(text string) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
