//go:build unix

package upgrade_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

// separator separates the parts of a file's name: term, host, version, process.
const separator = "_"

// signSize is the size of a sign of life in a file: nanoseconds of
// [overlap.Now].
const signSize = 8

// A stint is one process of a program under leader run.
type stint struct {
	overlap.Span // from the first sign of life to the last

	term    uint64
	id      string // of the host
	version string
	pid     int
	signs   int
}

// stintOf returns the stint whose file has the name and the contents. It lasts
// from the first sign to the last, also across a gap: a process that the system
// does not schedule still exists.
func stintOf(name string, b []byte) (s stint, err error) {
	parts := strings.Split(name, separator)
	if len(parts) != 4 {
		return s, fmt.Errorf("file %q: must have 4 parts", name)
	}
	s.id, s.version = parts[1], parts[2]
	if s.term, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return s, err
	}
	if s.pid, err = strconv.Atoi(parts[3]); err != nil {
		return s, err
	}
	s.Who = fmt.Sprintf("%s (%s) in term %d, process %d", s.id, s.version, s.term, s.pid)
	s.To = -1 // no instant
	if s.signs = len(b) / signSize; s.signs > 0 {
		sign := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[signSize*i:])) }
		s.From, s.To = sign(0), sign(s.signs-1)
	}
	return s, nil
}

// stintsIn returns what the programs of a group noted until now, by term.
func stintsIn(tb testing.TB, dir, group string) (all []stint) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, group, "*"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		s, err := stintOf(filepath.Base(file), b)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stint) int { return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.pid, b.pid)) })
	return all
}

// judge returns the violations: two programs at one instant, a program during a
// pause, two programs in one term, a term that began before a lower one. both is
// the total time of two at one instant.
func judge(stints []stint, pauses []overlap.Span) (found []string, both time.Duration) {
	spans := slices.Clone(pauses)
	for _, s := range stints {
		spans = append(spans, s.Span)
	}
	for a, b := range overlap.Pairs(spans) {
		shared := spans[a].Shared(spans[b])
		both += shared
		found = append(found, fmt.Sprintf("for %v at one instant: %s, and %s", shared, spans[a].Who, spans[b].Who))
	}
	ran := slices.DeleteFunc(slices.Clone(stints), func(s stint) bool { return s.signs == 0 })
	slices.SortFunc(ran, func(a, b stint) int { return cmp.Compare(a.From, b.From) })
	for i := 1; i < len(ran); i++ {
		if ran[i].term <= ran[i-1].term {
			found = append(found, fmt.Sprintf("no higher term: %s, after %s", ran[i].Who, ran[i-1].Who))
		}
	}
	return found, both
}

// A file holds signs of life in the form in which programs write them.
type file struct {
	name  string
	signs []int64 // milliseconds
}

func TestJudgeFindsWhatMustNotBe(t *testing.T) {
	const ms = int64(time.Millisecond)
	pause := overlap.Span{Who: "a pause", From: 4 * ms, To: 9 * ms}
	for what, c := range map[string]struct {
		files []file
		both  time.Duration
		found []string // the beginning of each finding
	}{
		"one after the other": {
			files: []file{{"7_a_old_11", []int64{1, 2, 3}}, {"9_b_new_12", []int64{10, 11}}},
		},
		"two at one instant": {
			files: []file{{"7_a_old_11", []int64{10, 11, 12, 13, 14}}, {"9_b_new_12", []int64{12, 13, 14, 15}}},
			both:  2 * time.Millisecond,
			found: []string{"for 2ms at one instant: a (old) in term 7, process 11, and b (new) in term 9, process 12"},
		},
		"two of one host": {
			files: []file{{"7_a_old_11", []int64{10, 14}}, {"9_a_new_12", []int64{13, 15}}},
			both:  time.Millisecond,
			found: []string{"for 1ms at one instant: a (old) in term 7, process 11, and a (new) in term 9, process 12"},
		},
		"one during a pause": {
			files: []file{{"7_a_old_11", []int64{1, 2, 6}}},
			both:  2 * time.Millisecond,
			found: []string{"for 2ms at one instant: a (old) in term 7, process 11, and a pause"},
		},
		"two in one term": {
			files: []file{{"7_a_old_11", []int64{1, 2}}, {"7_b_new_12", []int64{10, 11}}},
			found: []string{"no higher term: b (new) in term 7"},
		},
		"a lower term later": {
			files: []file{{"9_a_old_11", []int64{1, 2}}, {"7_b_new_12", []int64{10, 11}}},
			found: []string{"no higher term: b (new) in term 7"},
		},
		"one that was killed before its first sign": {
			files: []file{{"7_a_old_11", nil}, {"9_b_new_12", []int64{10, 11}}},
		},
	} {
		dir := t.TempDir()
		for _, f := range c.files {
			var b []byte
			for _, at := range f.signs {
				b = binary.BigEndian.AppendUint64(b, uint64(at*ms))
			}
			path := filepath.Join(dir, group, f.name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(b, "part"...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		found, both := judge(stintsIn(t, dir, group), []overlap.Span{pause})
		if both != c.both || len(found) != len(c.found) {
			t.Errorf("%s: %q, %v, want %q, %v", what, found, both, c.found, c.both)
			continue
		}
		for i := range found {
			if !strings.HasPrefix(found[i], c.found[i]) {
				t.Errorf("%s: %q, want %q", what, found[i], c.found[i])
			}
		}
	}
}
