package leader

import (
	"log/slog"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

func TestAnOfferHasItsTimeByWhatWritesTake(t *testing.T) {
	var l loop
	for _, c := range []Call{
		{Kind: "renew", Outcome: store.OK, Took: 3}, {Kind: callOffer, Outcome: store.OK, Took: 99},
		{Kind: "read", Outcome: store.OK, Took: 99}, {Kind: "renew", Outcome: store.Unknown, Took: 99},
	} {
		l.took(c)
	}
	if l.rtt != 3 {
		t.Errorf("%v, want what the renewal took", l.rtt)
	}
}

// A flood of offers costs no memory: the latest is kept.
func TestAMailboxKeepsOneOffer(t *testing.T) {
	m := newMailbox()
	for range 1000 {
		m.offered([]byte(`{"word":"w","revision":1,"reason":"stopped"}`))
	}
	m.offered([]byte(`{"word":"w","revision":2,"reason":"stopped"}`))
	letters, _, _ := m.take()
	if len(letters) != 1 || letters[0].ev.Kind != machine.Offered || letters[0].ev.Seen.Rev != 2 {
		t.Errorf("%d letters", len(letters))
	}
	if letters, _, _ = m.take(); len(letters) != 0 {
		t.Errorf("%d letters again", len(letters))
	}
}

// That an offer has left proves nothing of the store.
func TestAnOfferDoesNotClearTheLastError(t *testing.T) {
	e := &election{log: slog.New(slog.DiscardHandler), apart: &apart{}}
	e.failed(store.ErrTransient)
	e.reportCall(Call{Kind: callOffer, Outcome: store.OK})
	if e.lastErr.Load() == nil {
		t.Error("cleared by an offer")
	}
	e.reportCall(Call{Kind: "renew", Outcome: store.OK})
	if e.lastErr.Load() != nil {
		t.Error("not cleared by a renewal")
	}
}
