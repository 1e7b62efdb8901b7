package control_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A candidate waits an hour for a record that says nothing of its lease, or as
// long as its own; none of that is left where an operator vouches for it.
func TestVacateHandsTheRecordOfAnotherProgramToWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, connect func() *nats.Conn) {
		nc := connect()
		a := start(t, nc, "a") // makes the bucket
		awaitLeader(t, a)
		before := a.Term().Number
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		putName(t, nc, "host-7")
		b := start(t, connect(), "b")
		c := control(t, nc)
		for info := range b.Observe(natslab.Within(t)) {
			if info.Reason == leader.ReasonOverwritten {
				break
			}
		}
		info, err := c.Vacate(natslab.Within(t), leader.VacateRequest{Group: group, Force: true, Why: "moved"})
		if err != nil || info.Reason != leader.ReasonVacated {
			t.Fatalf("%v: %+v", err, info)
		}
		if id := awaitLeader(t, b); id != "b" || b.Term().Number <= before {
			t.Errorf("%q leads in term %d after %d", id, b.Term().Number, before)
		}
		if _, err := c.Forget(natslab.Within(t), group, ""); !errors.Is(err, leader.ErrLed) {
			t.Error(err)
		}
		term := b.Term().Number
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Forget(natslab.Within(t), group, "gone"); err != nil {
			t.Fatal(err)
		}
		d := start(t, connect(), "d")
		awaitLeader(t, d)
		if d.Term().Number <= term {
			t.Errorf("term %d follows %d", d.Term().Number, term)
		}
	})
}

func putName(t *testing.T, nc *nats.Conn, name string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(natslab.Within(t), "leaders")
	if err == nil {
		_, err = kv.Put(natslab.Within(t), group, []byte(name))
	}
	if err != nil {
		t.Fatal(err)
	}
}
