package record_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// FuzzRead reads arbitrary content of a register. Its corpus is in
// testdata/fuzz.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"a","token":"t","priority":1,"meta":{"k":"v"},"ttl":3000,"term":4,"renewal":5,"address":"x","drift":0.1}`), uint64(5), false)
	f.Add([]byte(`{"token":"t","term":4,"reason":"resigned","by":"a","successor":"b"}`), uint64(6), true)
	f.Add([]byte(nil), uint64(7), true)
	f.Add([]byte(nil), uint64(0), false)
	f.Fuzz(func(t *testing.T, value []byte, rev uint64, tombstone bool) {
		seen, r := record.Read(store.Entry{Key: "g", Revision: rev, Value: value, Tombstone: tombstone})
		if seen.Rev != rev || seen.Rec.TTL < 0 {
			t.Fatalf("%+v", seen)
		}
		mustHold(t, seen.Rec.Term <= rev, seen, r)
		switch seen.Kind {
		case machine.Held:
			mustHold(t, r.ID != "", seen, r)
		case machine.Vacant:
			mustHold(t, r.ID == "" && r.Reason != "" && len(r.Reason) <= record.MaxReason, seen, r)
			mustHold(t, len(r.By) <= record.MaxName && len(r.Why) <= record.MaxWhy && len(r.Successor) <= record.MaxName, seen, r)
		case machine.Malformed, machine.Absent, machine.Bare:
			mustHold(t, seen.Rec == machine.Record{} && reflect.DeepEqual(r, record.Record{}), seen, r)
			return
		default:
			t.Fatalf("%v", seen.Kind)
		}
		readsBack(t, seen, r)
	})
}

// readsBack holds a record that was read to this: written again it is the same.
func readsBack(t *testing.T, seen machine.Seen, r record.Record) {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		return // escapes made it longer than a register may be
	}
	again, r2 := record.Read(store.Entry{Key: "g", Revision: seen.Rev, Value: b, Tombstone: seen.Kind == machine.Vacant})
	if len(r.Meta) == 0 {
		r.Meta = nil // an empty map is not written
	}
	mustHold(t, again == seen && reflect.DeepEqual(r2, r), again, r2)
}

// FuzzReadControl reads arbitrary content of a control register.
func FuzzReadControl(f *testing.F) {
	f.Add([]byte(`{"op":"step-down","term":7,"by":"ops","reason":"maintenance"}`), uint64(1))
	f.Add([]byte(`{"op":"transfer","term":7,"successor":"b"}`), uint64(2))
	f.Add([]byte(`{"paused":{"by":"ops","reason":"upgrade"},"stand":{"id":"b","term":7,"priority":3,"version":"1.2"}}`), uint64(3))
	f.Add([]byte(`{"op":"reboot","paused":{"until":"2031","":[]},"quorum":{"of":3},"OP":"x"}`), uint64(4))
	f.Fuzz(func(t *testing.T, value []byte, rev uint64) {
		c, ok := record.ReadControl(store.Entry{Key: "_ctl.g", Revision: rev, Value: value})
		if !ok {
			return
		}
		r := c.Request
		if r.Known() && r.Op != record.OpStepDown && r.Successor == "" {
			t.Fatalf("revision %d: %+v", rev, r)
		}
		if n := c.Ran; n != nil && (n.Begin < 0 || n.Begin > int64(record.MaxMoment) || len(n.ID) > record.MaxName) {
			t.Fatalf("%+v", n)
		}
		vacancy := record.Of(machine.Record{Reason: "stepped-down", By: r.By, Why: r.Reason, Successor: r.Successor}, record.About{})
		mustEncode(t, vacancy)
		again, ok := record.ReadControl(store.Entry{Key: "_ctl.g", Revision: 1, Value: mustEncodeShort(t, c)})
		if !ok || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v, want %+v", again, c)
		}
	})
}

// mustEncodeShort encodes a request, unless its reason is too long for that.
func mustEncodeShort(t *testing.T, r record.Control) []byte {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > store.MaxValue {
		t.Skip("escapes made it longer than a register may be")
	}
	return mustEncode(t, r)
}

func mustHold(t *testing.T, ok bool, seen machine.Seen, r record.Record) {
	t.Helper()
	if !ok {
		t.Fatalf("%+v\n%+v", seen, r)
	}
}
