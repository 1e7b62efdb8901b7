package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

func waiting() wire.Record {
	return wire.Record{State: wire.Queued, Timeout: time.Second, MaxAttempts: 9}
}

// A worker is found by the labels that it has now.
func TestTasksFollowTheLabelsOfWorkers(t *testing.T) {
	d := newDesk(t)
	show := func(name string, labels ...string) {
		d.l.Heard(d.now, wire.FromWorker{Worker: name, Run: "1", Presence: &wire.Presence{Capacity: 9, Lease: time.Hour, Labels: labels}})
	}
	given := func(id string, to wire.Target) string {
		d.rev++
		r := waiting()
		r.To = to
		d.l.Stored(d.now, id, d.rev, r)
		out := d.l.Take()
		if len(out.Writes) == 0 {
			return ""
		}
		d.stored(out.Writes[0])
		return out.Writes[0].Record.Worker
	}
	show("a", "gpu", "eu")
	show("b", "eu", "eu")
	for i, c := range []struct {
		to   wire.Target
		want string
	}{
		{wire.Target{Label: "gpu"}, "a"}, {wire.Target{Label: "us"}, ""}, {wire.Target{Label: "gpu", Key: "k"}, "a"}, {wire.Target{Label: "eu", Key: "k", Worker: "b"}, "b"},
	} {
		if got := given(fmt.Sprint("first", i), c.to); got != c.want {
			t.Errorf("%+v was given to %q, want %q", c.to, got, c.want)
		}
	}
	show("a", "eu")
	if got := given("none", wire.Target{Label: "gpu"}); got != "" {
		t.Errorf("given to %q, which has the label no more", got)
	}
	show("b", "gpu")
	if w := d.written(); w.ID != "none" || w.Record.Worker != "b" {
		t.Errorf("%+v, want the task that waited", w)
	}
	d.l.Heard(d.now, wire.FromWorker{Worker: "b", Run: "1", Leaving: true})
	d.l.Take()
	if got := given("gone", wire.Target{Label: "gpu"}); got != "" {
		t.Errorf("given to %q, which has left", got)
	}
}

// The oldest goes first, whatever it asks for.
func TestTasksOfSeveralClassesGoInTheOrderOfTheirArrival(t *testing.T) {
	d := newDesk(t)
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Leaving: true})
	targets := []wire.Target{{}, {Label: "l"}, {Worker: "v"}, {Label: "nobody's"}, {Worker: "nobody"}}
	var want []string
	for i := range 60 {
		r, id, class := waiting(), fmt.Sprintf("%02d", i), (7*i+i/5)%len(targets)
		if r.To = targets[class]; class < 3 {
			want = append(want, id)
		}
		d.rev++
		d.l.Stored(d.now, id, d.rev, r)
	}
	d.l.Take()
	d.l.Heard(d.now, wire.FromWorker{Worker: "v", Run: "1", Presence: &wire.Presence{Capacity: 20, Lease: time.Hour, Labels: []string{"l"}}})
	var got []string
	for _, w := range d.l.Take().Writes {
		got = append(got, w.ID)
	}
	if !slices.Equal(got, want[:20]) {
		t.Errorf("given: %v, want %v", got, want[:20])
	}
}
