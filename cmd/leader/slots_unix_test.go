//go:build unix

package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
)

// told prints where the program runs.
const told = `echo "$LEADER_SLOT $LEADER_SLOTS $LEADER_GROUP $LEADER_ID"; `

func TestSlotsRunTheProgramOnSoManyHosts(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	lines := make(chan string, 8)
	hosts := map[string]*running{}
	for _, id := range []string{"a", "b", "c"} {
		h := startRun(t, url, []string{"-n", "2", "--id", id}, told+"sleep 600")
		hosts[id] = h
		go func() {
			if l, ok := <-h.lines; ok {
				lines <- l
			}
		}()
	}
	next := func() (slot, id string) {
		t.Helper()
		select {
		case l := <-lines:
			f := strings.Fields(l)
			if len(f) != 4 || f[1] != "2" || f[2] != "jobs."+f[0] {
				t.Fatalf("the program says %q", l)
			}
			return f[0], f[3]
		case <-time.After(patience):
			t.Fatal("the program does not run on another host")
		}
		return "", ""
	}
	slots, ids := []string{"", ""}, []string{"", ""}
	for i := range 2 {
		slots[i], ids[i] = next()
	}
	if ids[0] == ids[1] || slots[0] == slots[1] {
		t.Fatalf("slots %q on hosts %q", slots, ids)
	}
	// Whoever leaves makes room for the third, in its slot.
	hosts[ids[0]].signal(syscall.SIGTERM)
	slot, id := next()
	if slot != slots[0] || slices.Contains(ids, id) {
		t.Errorf("host %s runs it in slot %s after %s did in %s", id, slot, ids[0], slots[0])
	}
}

// A second process of the host finds a free slot, and leaves it.
func TestAHostHasOneSlotAtTheMost(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	first := startRun(t, url, []string{"-n", "3", "--id", "a", "--ttl", "3s", "--heartbeat", "500ms"}, told+"sleep 600")
	first.line()
	second := startRun(t, url, []string{"-n", "3", "--id", "a", "--ttl", "3s", "--heartbeat", "500ms"}, told+"sleep 600")
	rest, code := second.end()
	if said := second.said(); code != 1 || len(rest) > 0 || !strings.Contains(said, `another process named "a"`) {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, said)
	}
}

// What a killed process left is no second one: its lease ends.
func TestAHostThatComesBackTakesAnotherSlot(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	flags := []string{"-n", "3", "--id", "a", "--ttl", "1s", "--heartbeat", "200ms"}
	first := startRun(t, url, flags, told+"sleep 600")
	first.line()
	first.signal(syscall.SIGKILL)
	second := startRun(t, url, flags, told+"sleep 600")
	if f := strings.Fields(second.line()); len(f) != 4 {
		t.Errorf("the program says %q", f)
	}
}
