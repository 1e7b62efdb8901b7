package engine

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestAnOfferHasItsTimeByWhatWritesTake(t *testing.T) {
	l := &New(memstore.New(), testConfig()).loop
	for _, c := range []Call{
		{Kind: "renew", Outcome: store.OK, Took: 3}, {Kind: callOffer, Outcome: store.OK, Took: 99},
		{Kind: "read", Outcome: store.OK, Took: 99}, {Kind: "renew", Outcome: store.Unknown, Took: 99},
	} {
		l.measure(&c)
	}
	if l.rtt != 3 {
		t.Errorf("%v, want what the renewal took", l.rtt)
	}
}

// That an offer has left proves nothing of the store.
func TestAnOfferDoesNotClearTheLastError(t *testing.T) {
	e := New(memstore.New(), testConfig())
	e.report.failed(store.ErrTransient)
	e.report.call(Call{Kind: callOffer, Outcome: store.OK})
	if e.report.lastErr.Load() == nil {
		t.Error("cleared by an offer")
	}
	e.report.call(Call{Kind: "renew", Outcome: store.OK})
	if e.report.lastErr.Load() != nil {
		t.Error("not cleared by a renewal")
	}
}
