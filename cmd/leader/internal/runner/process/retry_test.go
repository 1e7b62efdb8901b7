//go:build unix

package process

import (
	"strings"
	"testing"
	"time"
)

func met(denied bool, pids ...int) (r Round) {
	for _, pid := range pids {
		r.Found = append(r.Found, process{pid: pid, start: "1"})
		if denied {
			r.Denied = append(r.Denied, Survivor{PID: pid, Start: "1"})
		}
	}
	return r
}

// rounds returns how many rounds a retry makes in a time, if somebody looks
// each millisecond, as orders and ended children make a guard look.
func rounds(d time.Duration, meets func(n int) Round) (n int) {
	var h Retry
	for now := int64(1); now <= int64(d); now += int64(time.Millisecond) {
		if h.Ready(now) {
			h.Took(now, meets(n))
			n++
		}
	}
	return n
}

func TestUnkillableProcessIsRetriedLessAndLess(t *testing.T) {
	for name, c := range map[string]struct {
		meets func(n int) Round
		most  int
	}{
		"it may not be signalled": {func(int) Round { return met(true, 7, 8) }, 620},
		// A process of another user that forks: nothing can be done about the
		// new ones, either.
		"it forks":                   {func(n int) Round { return met(true, 7, 100+n) }, 620},
		"it hangs in the kernel":     {func(int) Round { return met(false, 7) }, 620},
		"it is still to end, once":   {func(n int) Round { return met(false, 7+min(n, 1)) }, 620},
		"it forks, and can be ended": {func(n int) Round { return met(false, 7, 100+n) }, 60_001},
	} {
		if n := rounds(10*time.Minute, c.meets); n > c.most {
			t.Errorf("%s: %d rounds in ten minutes, want at most %d", name, n, c.most)
		}
	}
}

func TestNewProcessIsKilledSoon(t *testing.T) {
	var h Retry
	now := int64(time.Hour)
	for range 20 {
		h.Took(now, met(true, 7))
		now = h.Due
	}
	if h.Backoff != maxBackoff {
		t.Fatalf("the backoff is %v", h.Backoff)
	}
	r := met(true, 7)
	r.Found = append(r.Found, process{pid: 8, start: "2"})
	h.Took(now, r)
	if rest := time.Duration(h.Due - now); rest != KillInterval {
		t.Errorf("the next round follows after %v, want %v", rest, KillInterval)
	}
}

func TestASurvivorIsNamedOnce(t *testing.T) {
	var n Named
	said := 0
	for i := range 1000 {
		said += len(n.News(met(true, 7, 100+i).Denied))
	}
	if said != MaxNamed {
		t.Errorf("%d were named, want %d", said, MaxNamed)
	}
	words := DeniedWords([]Survivor{{PID: 7, UID: 0, Comm: "sudo"}, {PID: -9}}, 1000)
	for _, want := range []string{`process 7 ("sudo", uid 0)`, "process group 9", "uid 1000"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q does not contain %q", words, want)
		}
	}
}
