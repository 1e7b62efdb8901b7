package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// Whoever watches the record may know of a term before the leader does, whose
// acknowledgement is still on its way.
func TestRequestThatComesBeforeTheAcknowledgementIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := faultstore.New(faultstore.Options{Policy: func(c faultstore.Call) (f faultstore.Fate) {
			switch {
			case c.Op == faultstore.Event && c.Key == "g":
				f.Lose = true
			case c.Op == faultstore.CompareAndSwap && c.N == 0:
				f.Reply = 500 * time.Millisecond
			}
			return f
		}})
		t.Cleanup(net.Close)
		e, err := leader.NewElectionWithStore(net.Client("a"), config("a"))
		if err != nil {
			t.Fatal(err)
		}
		started(t, e)
		defer e.Stop() //nolint:errcheck // what it says is judged elsewhere
		time.Sleep(100 * time.Millisecond)
		term := net.Entry("g").Revision
		if term == 0 || e.IsLeader() {
			t.Fatalf("term %d, leader %v: the claim should be applied and not acknowledged", term, e.IsLeader())
		}
		req, err := record.Control{Request: record.Request{Op: record.OpStepDown, Term: term}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		net.Put(record.ControlKey("g"), req)
		time.Sleep(time.Second)
		if s := e.Status(); s.IsLeader || s.Reason != leader.ReasonStandBack {
			t.Errorf("the request was lost: %+v", s)
		}
	})
}
