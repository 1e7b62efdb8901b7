package record

import (
	"bytes"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// A Draft is a write of a record. A watch brings a holder each of its writes
// back; the draft reads them without parsing them.
type Draft struct {
	store.Write

	record Record
	exact  bool // Read would make record of the value
}

// NewDraft returns the write that puts the result of [Of] in place of a
// revision. Its Key and Tombstone are left to the caller. The error comes from
// Encode.
//
// It makes the record where it stays, since thousands of goroutines draft that
// have little stack, and growing it costs more than drafting.
func NewDraft(c *machine.Record, about *About, expected uint64) (*Draft, error) {
	d := &Draft{Write: store.Write{Expected: expected}}
	set(&d.record, c, about)
	return d.encoded()
}

func (d *Draft) encoded() (*Draft, error) {
	var err error
	if d.Value, d.exact, err = encodeRecord(&d.record); err != nil {
		return nil, err
	}
	if len(d.record.Meta) == 0 {
		d.record.Meta = nil // an empty map is not written
	}
	if len(d.record.Standings) == 0 {
		d.record.Standings = nil
	}
	return d, nil
}

// Read is the function Read, for an entry that may be the draft's: it sets seen
// and r, whatever they hold, to the function's result. r may share memory with
// the record that was drafted. A nil draft matches no entry.
//
// It takes pointers, since thousands of goroutines read that have little stack,
// and growing it costs more than reading.
func (d *Draft) Read(e *store.Entry, seen *machine.Seen, r *Record) {
	if d == nil || !d.exact || e.Revision == 0 || !bytes.Equal(e.Value, d.Value) {
		read(e, seen, r)
		return
	}
	*seen, *r = machine.Seen{Rev: e.Revision}, d.record
	interpret(e, seen, r)
}

// Decided reports whether a revision of the register is later than the one that
// the draft replaces. It is then the draft's, or what came in its place or
// after it, so that the draft is not needed again.
func (d *Draft) Decided(revision uint64) bool { return d != nil && revision > d.Expected }
