// Package record reads and writes what an election keeps in its registers: the
// record of a group, the vacancy that takes its place, and the control request.
//
// The format is JSON. docs/protocol.md describes every field; the ones of the original
// payload (id, token, priority, meta) have the meaning that other programs
// already give them. Unknown fields change nothing. What cannot be read
// is Garbled, never an error that stops anybody.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// A Record is the content of a group's register, as JSON.
type Record struct {
	// ID is the holder's InstanceID. A record without it is a vacancy.
	ID string `json:"id,omitempty"`
	// Token identifies the claim. It orders nothing.
	Token string `json:"token,omitempty"`
	// Priority is the holder's.
	Priority int `json:"priority,omitempty"`
	// Meta is what the holder says of itself.
	Meta map[string]string `json:"meta,omitempty"`
	// TTL is the lease's length in milliseconds, as its holder counts it.
	TTL int64 `json:"ttl,omitempty"`
	// Term is the revision of the acquiring write, absent from that write itself.
	Term uint64 `json:"term,omitempty"`
	// Renewal counts the renewals of this claim.
	Renewal uint64 `json:"renewal,omitempty"`
	// Start marks the acquiring write of a candidate that had seen no holder before. Others that start
	// and see it may have missed a race of many.
	Start bool `json:"start,omitempty"`
	// Address is where the leader's clients reach it.
	Address string `json:"address,omitempty"`

	// Of a vacancy: why the holder left, who asked for it, and who is asked to take over.
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"`
	Successor string `json:"successor,omitempty"`
}

// A Request is the content of a group's control register, as JSON.
type Request struct {
	// Op is what the holder is asked for: see the constants.
	Op string `json:"op"`
	// Term is the term that the request is meant for. Later terms ignore it.
	Term uint64 `json:"term"`
	// Successor is the candidate to hand over to, for OpTransfer.
	Successor string `json:"successor,omitempty"`
	// By says who asks, and Reason why, for people.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// The operations of a Request.
const (
	OpStepDown = "step-down"
	OpTransfer = "transfer"
)

// ControlKey is the name of the control register that belongs to a group.
func ControlKey(group string) string { return "_ctl." + group }

// Encode returns the record's bytes, or an error if they exceed what every store takes.
func (r Record) Encode() ([]byte, error) { return encode(r) }

// Encode returns the request's bytes, or an error if they exceed what every store takes.
func (r Request) Encode() ([]byte, error) { return encode(r) }

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > store.MaxValue {
		return nil, fmt.Errorf("%d bytes of JSON, more than the %d that every store takes", len(b), store.MaxValue)
	}
	return b, nil
}

// Read interprets a group's register. The Record is zero unless the kind is Held or Vacant.
func Read(e store.Entry) (machine.Seen, Record) {
	seen := machine.Seen{Rev: e.Revision}
	switch {
	case e.Revision == 0:
		seen.Kind = machine.Absent
		return seen, Record{}
	case len(e.Value) == 0 && e.Tombstone:
		seen.Kind = machine.Bare
		return seen, Record{}
	}
	r, err := decode(e.Value)
	if err != nil {
		seen.Kind = machine.Garbled
		return seen, Record{}
	}
	switch {
	case r.ID != "":
		seen.Kind = machine.Held
	case e.Tombstone:
		seen.Kind = machine.Vacant
	default:
		// A vacancy is permission to lead at once. Ours are tombstones; a value without
		// an id that somebody put there is data of theirs.
		seen.Kind = machine.Garbled
		return seen, Record{}
	}
	seen.Rec = r.core()
	return seen, r
}

var (
	errTooLong   = errors.New("longer than a record may be")
	errNoRecord  = errors.New("neither a holder's record nor a vacancy")
	errBadNumber = errors.New("a number out of its range")
)

func decode(b []byte) (Record, error) {
	if len(b) > store.MaxValue {
		return Record{}, errTooLong
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, err
	}
	return r, r.check()
}

// maxNumber bounds terms, renewals and durations: beyond 2^53 other JSON readers lose
// digits, and a duration in milliseconds could overflow.
const maxNumber = 1 << 53

func (r Record) check() error {
	switch {
	case r.ID == "" && r.Reason == "":
		// A vacancy says why. Any other JSON object without an id is somebody else's
		// data: taking "{}" for a vacancy would make it permission to lead at once.
		return errNoRecord
	case r.TTL < 0 || r.TTL > maxNumber || r.Term > maxNumber || r.Renewal > maxNumber:
		return errBadNumber
	}
	return nil
}

func (r Record) core() machine.Record {
	return machine.Record{
		ID: r.ID, Token: r.Token, TTL: ttl(r.TTL), Term: r.Term, Renewal: r.Renewal, Start: r.Start, Priority: r.Priority,
		Reason: machine.Reason(r.Reason), By: r.By, Successor: r.Successor,
	}
}

// ttl converts without overflow; whoever believes a TTL clamps it anyway.
func ttl(ms int64) time.Duration {
	const most = int64(24 * time.Hour / time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

// Of returns the record that the core wants written; meta and address are the writer's.
func Of(c machine.Record, meta map[string]string, address string) Record {
	r := Record{
		ID: c.ID, Token: c.Token, Priority: c.Priority, TTL: c.TTL.Milliseconds(), Term: c.Term, Renewal: c.Renewal, Start: c.Start,
		Reason: string(c.Reason), By: c.By, Successor: c.Successor,
	}
	if c.ID != "" {
		r.Meta, r.Address = meta, address
	}
	return r
}

// ReadRequest interprets a group's control register; ok is false if nothing is asked there.
func ReadRequest(e store.Entry) (r Request, ok bool) {
	if e.Revision == 0 || len(e.Value) == 0 || len(e.Value) > store.MaxValue {
		return Request{}, false
	}
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return Request{}, false
	}
	if len(r.By) > maxName || len(r.Successor) > maxName {
		return Request{}, false
	}
	return r, r.Op == OpStepDown || r.Op == OpTransfer && r.Successor != ""
}

// maxName bounds the names of a request, in bytes. They go into the vacancy that answers
// it: one that outgrew what stores take would let the release fail.
const maxName = 256
