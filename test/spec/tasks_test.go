package spec_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/httpfence"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A leader hands out tasks, and states its term with each. Whoever takes them
// turns away those of a leader that has been succeeded, and those that know a
// term's number alone.
func TestTasksOfASucceededLeaderAreTurnedAway(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), "b")
	wire, verdicts := srv.Connect(t), make(chan error, 1)
	mark := fence.Mark{} // of the one goroutine that takes tasks
	_, err := wire.Subscribe("tasks", func(m *nats.Msg) {
		_, term, err := httpfence.Read(http.Header(m.Header))
		if err == nil {
			mark, err = mark.Accept(term)
		}
		verdicts <- err
	})
	if err != nil {
		t.Fatal(err)
	}
	give := func(term leader.Term) error {
		t.Helper()
		task := nats.NewMsg("tasks")
		httpfence.Stamp(http.Header(task.Header), "g", term)
		if err := wire.PublishMsg(task); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-verdicts:
			return err
		case <-within(t).Done():
			t.Fatal("the task did not arrive")
			return nil
		}
	}
	g := newGroup(t, "b")
	a := g.joinBehind(srv, "a", ttl(short))
	a.leads()
	b := g.joinBehind(srv, "b", ttl(short))
	b.hears()
	// By now it may be b: the machine may have stalled for a's lease.
	old, _, first := g.leading()
	for range 2 {
		if err := give(first); err != nil {
			t.Errorf("a task of the leader: %v", err)
		}
	}
	old.proxy.Hold(natslab.ToServer, natslab.ToClient)
	var second leader.Term
	for second.IsZero() { // as above
		second = g.leaderAfter(first).Term()
	}
	if err := give(second); err != nil {
		t.Errorf("a task of the next leader: %v", err)
	}
	if err := give(first); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a task of the leader before: %v", err)
	}
	if err := give(leader.Term{Number: second.Number, Token: first.Token}); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a task with a token that is not the leader's: %v", err)
	}
	if err := give(leader.Term{}); err == nil {
		t.Error("a task of no leader was taken")
	}
	old.proxy.Resume()
}
