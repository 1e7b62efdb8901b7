//go:build unix

package runner

import (
	"strings"
	"testing"
	"time"
)

func met(denied bool, pids ...int) (r round) {
	for _, pid := range pids {
		r.found = append(r.found, process{pid: pid, start: "1"})
		if denied {
			r.denied = append(r.denied, survivor{PID: pid, Start: "1"})
		}
	}
	return r
}

// rounds returns how many rounds a hunt makes in a time, if somebody looks each
// millisecond, as orders and ended children make a guard look.
func rounds(d time.Duration, meets func(n int) round) (n int) {
	var h hunt
	for now := int64(1); now <= int64(d); now += int64(time.Millisecond) {
		if h.ready(now) {
			h.took(now, meets(n))
			n++
		}
	}
	return n
}

func TestWhatCannotBeEndedIsNotTriedForEver(t *testing.T) {
	for name, c := range map[string]struct {
		meets func(n int) round
		most  int
	}{
		"it may not be signalled": {func(int) round { return met(true, 7, 8) }, 620},
		// A process of another user that forks: nothing can be done about the new ones, either.
		"it forks":                   {func(n int) round { return met(true, 7, 100+n) }, 620},
		"it hangs in the kernel":     {func(int) round { return met(false, 7) }, 620},
		"it is still to end, once":   {func(n int) round { return met(false, 7+min(n, 1)) }, 620},
		"it forks, and can be ended": {func(n int) round { return met(false, 7, 100+n) }, 60_001},
	} {
		if n := rounds(10*time.Minute, c.meets); n > c.most {
			t.Errorf("%s: %d rounds in ten minutes, want at most %d", name, n, c.most)
		}
	}
}

func TestWhoeverAppearsIsKilledSoon(t *testing.T) {
	var h hunt
	now := int64(time.Hour)
	for range 20 {
		h.took(now, met(true, 7))
		now = h.due
	}
	if h.rest != maxKillRest {
		t.Fatalf("the rest is %v", h.rest)
	}
	r := met(true, 7)
	r.found = append(r.found, process{pid: 8, start: "2"})
	h.took(now, r)
	if rest := time.Duration(h.due - now); rest != killInterval {
		t.Errorf("the next round follows after %v, want %v", rest, killInterval)
	}
}

func TestASurvivorIsNamedOnce(t *testing.T) {
	var n naming
	said := 0
	for i := range 1000 {
		said += len(n.news(met(true, 7, 100+i).denied))
	}
	if said != maxNamed {
		t.Errorf("%d were named, want %d", said, maxNamed)
	}
	words := deniedWords([]survivor{{PID: 7, UID: 0, Comm: "sudo"}, {PID: -9}}, 1000)
	for _, want := range []string{`process 7 ("sudo", uid 0)`, "process group 9", "uid 1000"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q does not say %q", words, want)
		}
	}
}
