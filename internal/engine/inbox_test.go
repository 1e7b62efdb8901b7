package engine

import (
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

func TestInboxKeepsOnlyTheLatestStateOfEachRecord(t *testing.T) {
	m := newInbox()
	for i := range 100 {
		m.observed(entryAt(uint64(i)), false)
		m.observed(entryAt(uint64(1000+i)), true)
	}
	messages, record, control := m.take()
	if len(messages) != 0 || record.Revision != 99 || control.Revision != 1099 {
		t.Fatalf("%d messages, %v, %v", len(messages), record, control)
	}
	if messages, record, control := m.take(); len(messages) != 0 || record != nil || control != nil {
		t.Fatal("the inbox is not empty")
	}
}

// A flood of offers costs no memory: the latest is kept.
func TestAnInboxKeepsOneOffer(t *testing.T) {
	m := newInbox()
	for range 1000 {
		m.offered([]byte(`{"word":"w","revision":1,"reason":"stopped"}`))
	}
	m.offered([]byte(`{"word":"w","revision":2,"reason":"stopped"}`))
	messages, _, _ := m.take()
	if len(messages) != 1 || messages[0].event.Kind != machine.Offered || messages[0].event.Seen.Rev != 2 {
		t.Errorf("%d messages", len(messages))
	}
	if messages, _, _ = m.take(); len(messages) != 0 {
		t.Errorf("%d messages again", len(messages))
	}
}

func entryAt(rev uint64) store.Entry { return store.Entry{Key: "g", Revision: rev} }
