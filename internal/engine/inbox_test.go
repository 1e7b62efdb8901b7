package engine

import (
	"testing"

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

func entryAt(rev uint64) store.Entry { return store.Entry{Key: "g", Revision: rev} }
