// Package storefigures holds what a user has to know of each kind of store, and
// what elections over it take and cost. The latter a test in test/labs/stores
// measures; docs/reference/stores.md shows both, and the comparison the second.
package storefigures

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A Report is what one run measured.
type Report struct {
	At     time.Time     `json:"at"`
	Took   time.Duration `json:"took"`
	Rounds int           `json:"rounds"` // writes and handovers in each store
	Load   string        `json:"load"`   // the load average before the run
	Stores []Store       `json:"stores"`
}

// A Store is what was measured on one server of a kind.
type Store struct {
	Name string `json:"name"`
	// Absent is the reason why nothing was measured. It is empty if it was.
	Absent string `json:"absent,omitempty"`

	Swap      harness.Samples `json:"swap,omitempty"`      // a renewal by a client that watches
	Trips     int             `json:"trips,omitempty"`     // round trips of a renewal
	Bytes     int             `json:"bytes,omitempty"`     // that a renewal sends and receives
	CPU       time.Duration   `json:"cpu,omitempty"`       // of a renewal, of its client
	Plain     harness.Samples `json:"plain,omitempty"`     // the same write by the store's client, without this library
	Least     harness.Samples `json:"least,omitempty"`     // two writes and the news between, without this library; none where there are no news
	Handover  harness.Samples `json:"handover,omitempty"`  // from Resign to the successor's promotion
	Heartbeat time.Duration   `json:"heartbeat,omitempty"` // of those elections
	Crash     harness.Samples `json:"crash,omitempty"`     // from the last renewal to the successor's promotion
	TTL       time.Duration   `json:"ttl,omitempty"`       // of those elections; they renew five times in it
	Rest      float64         `json:"rest,omitempty"`      // processors that 1 leader and 10 followers take
	Herds     []Herd          `json:"herds,omitempty"`     // handovers among more than two
}

// A Herd is handovers among so many candidates.
type Herd struct {
	Candidates int             `json:"candidates"`
	Took       harness.Samples `json:"took"`   // from Resign to the successor's promotion
	Claims     harness.Samples `json:"claims"` // for each; a number, no duration
}

// Sizes are the sizes of the herds.
func Sizes() []int { return []int{3, 20, 200} }

// Among returns the herd of so many candidates, or nil.
func (s *Store) Among(n int) *Herd {
	for i := range s.Herds {
		if s.Herds[i].Candidates == n {
			return &s.Herds[i]
		}
	}
	return nil
}

// Polled reports whether changes are found by looking.
func (s *Store) Polled() bool { return len(s.Least) == 0 }

// PerSwap is a handover in compare-and-swaps.
func (s *Store) PerSwap() float64 {
	return float64(s.Handover.Median()) / float64(max(s.Swap.Median(), 1))
}

// PerPlain is a handover in compare-and-swaps by the store's client alone.
func (s *Store) PerPlain() float64 {
	return float64(s.Handover.Median()) / float64(max(s.Plain.Median(), 1))
}

// PerTTL is a crash failover in leases.
func (s *Store) PerTTL() float64 { return float64(s.Crash.Median()) / float64(max(s.TTL, 1)) }

// Table is the table of all stores: its head, and a row for each.
func (r *Report) Table() (head []string, rows [][]string) {
	head = []string{
		"store", "compare-and-swap, p50 (p99)", "its round trips (bytes)", "its CPU time", "compare-and-swap without the library, p50 (p99)", "two compare-and-swaps and the notification between them, without the library, p50",
		"handover, p50 (p99)", "handover / compare-and-swap (without the library)", "crash / TTL", "CPU of 1 leader and 10 followers",
	}
	for _, n := range Sizes() {
		head = append(head, fmt.Sprintf("handover among %d, p50 (claims)", n))
	}
	for i := range r.Stores {
		rows = append(rows, r.Stores[i].row(len(head)))
	}
	return head, rows
}

func (s *Store) row(columns int) []string {
	if s.Absent != "" {
		row := make([]string, columns)
		row[0], row[1] = s.Name, s.Absent
		return row
	}
	least := "–"
	if !s.Polled() {
		least = ms(s.Least.Median())
	}
	row := []string{
		s.Name, quantiles(s.Swap), fmt.Sprintf("%d (%d)", s.Trips, s.Bytes), ms(s.CPU), quantiles(s.Plain), least,
		quantiles(s.Handover), fmt.Sprintf("%.1f (%.1f)", s.PerSwap(), s.PerPlain()), fmt.Sprintf("%.2f", s.PerTTL()), fmt.Sprintf("%.1f %%", 100*s.Rest),
	}
	for _, n := range Sizes() {
		cell := "–"
		if h := s.Among(n); h != nil {
			cell = fmt.Sprintf("%s (%d)", ms(h.Took.Median()), h.Claims.Median())
		}
		row = append(row, cell)
	}
	return row
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func quantiles(s harness.Samples) string {
	return fmt.Sprintf("%s (%.2f)", ms(s.Median()), float64(s.Percentile(99).Microseconds())/1000)
}

// Markdown is the table for a page.
func (r *Report) Markdown() string {
	head, rows := r.Table()
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(head)))
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// Write writes the report to a file, for [Read].
func (r *Report) Write(file string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Clean(file), text, 0o644)
}

// Read reads what [Report.Write] has written.
func Read(file string) (*Report, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}
