package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
)

func openLedger(t *testing.T) *ledger {
	t.Helper()
	l, err := open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// check compares the database with itself: as many payments as slots that were
// run, and terms that grow with the slots. It returns how many slots were run.
func (l *ledger) check(t *testing.T) (runs int) {
	t.Helper()
	var balance int
	if err := l.db.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&balance); err != nil {
		t.Fatal(err)
	}
	rows, err := l.db.QueryContext(t.Context(), `SELECT slot, term, instance FROM run ORDER BY rowid`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for last := int64(0); rows.Next(); runs++ {
		var slot, term int64
		var instance string
		if err := rows.Scan(&slot, &term, &instance); err != nil {
			t.Fatal(err)
		}
		if term < last {
			t.Errorf("slot %d was run by %s in term %d, after term %d", slot, instance, term, last)
		}
		last = term
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if balance != runs {
		t.Errorf("the job was done %d times for %d slots", balance, runs)
	}
	return runs
}

var (
	stale = leader.Term{Number: 41, Token: "a"}
	fresh = leader.Term{Number: 57, Token: "b"}
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func TestASlotIsRunOnce(t *testing.T) {
	l := openLedger(t)
	for attempt, want := range []bool{true, false, false} {
		ran, err := l.run(t.Context(), stale, noon, "a")
		if err != nil || ran != want {
			t.Errorf("attempt %d: %v, %v", attempt+1, ran, err)
		}
	}
	if ran, err := l.run(t.Context(), fresh, noon, "b"); ran || err != nil {
		t.Errorf("in the next term: %v, %v", ran, err)
	}
	if n := l.check(t); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// The first line that somebody reads who tries it names no slot of the year 1.
func TestFirstTermLogsItsStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var said []string
	s := scheduler{ledger: openLedger(t), every: time.Hour, say: func(_ leader.Term, format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
		cancel()
	}}
	if err := s.leadOnce(ctx, fresh); err != nil || !slices.Equal(said, []string{"begins"}) {
		t.Errorf("%q, %v", said, err)
	}
}

func TestAStaleLeaderRunsNothing(t *testing.T) {
	l := openLedger(t)
	if _, err := l.begin(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	if _, err := l.begin(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	const attempts = 1000
	for i := range attempts {
		slot := noon.Add(time.Duration(i) * time.Second)
		if ran, err := l.run(t.Context(), stale, slot, "a"); ran || !errors.Is(err, fence.ErrStale) {
			t.Fatalf("attempt %d: %v, %v", i+1, ran, err)
		}
	}
	if _, err := l.begin(t.Context(), stale); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the stale leader begins again: %v", err)
	}
	if n := l.check(t); n != 0 {
		t.Errorf("%d of %d attempts were accepted", n, attempts)
	}
}

func TestASuccessorRunsWhatWasMissed(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for what, c := range map[string]struct{ last, now, want time.Time }{
		"the schedule begins":              {time.Time{}, at(13), at(20)},
		"the slot to come":                 {at(10), at(13), at(20)},
		"at the very instant of a slot":    {at(10), at(20), at(20)},
		"a slot was missed":                {at(10), at(25), at(20)},
		"too many were missed":             {at(10), at(200), at(150)},
		"the clock was set back":           {at(100), at(13), at(20)},
		"the schedule was another one":     {at(7), at(8), at(10)},
		"the slot was run a moment before": {at(20), at(20), at(30)},
	} {
		if got := next(c.last, c.now, 10*time.Second); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
