package record

import (
	"bytes"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// A Draft is a write of a record. A watch brings a holder each of its writes
// back; the draft tells what they say without parsing them.
type Draft struct {
	store.Write

	record Record
	exact  bool // Read would make record of the value
}

// Draft returns the write that puts the record in place of a revision. Its Key
// and Tombstone are left to the caller. The error is that of Encode.
func (r Record) Draft(expected uint64) (*Draft, error) {
	value, exact, err := r.encode()
	if err != nil {
		return nil, err
	}
	if len(r.Meta) == 0 {
		r.Meta = nil // an empty map is not written
	}
	if len(r.Standings) == 0 {
		r.Standings = nil
	}
	return &Draft{store.Write{Expected: expected, Value: value}, r, exact}, nil
}

// Read is the function Read, for an entry that may be the draft's. The Record
// may share memory with the one that was drafted. A nil draft is nobody's.
func (d *Draft) Read(e store.Entry) (machine.Seen, Record) {
	if d == nil || !d.exact || e.Revision == 0 || !bytes.Equal(e.Value, d.Value) {
		return Read(e)
	}
	return d.record.in(e)
}

// Decided reports whether a state of the register is later than what the draft
// replaces. It then holds the draft, or what came in its place or after it, so
// that the draft is not needed again.
func (d *Draft) Decided(e store.Entry) bool { return d != nil && e.Revision > d.Expected }
