package record_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

func mustRead(t *testing.T, value string) record.Control {
	t.Helper()
	c, ok := record.ReadControl(entry(value))
	if !ok {
		t.Fatalf("%s was not understood", value)
	}
	return c
}

// Fields that a later version of this program has put into the control record
// survive an older version's changes to the rest.
func TestAControlRecordKeepsTheFieldsThatItDoesNotKnow(t *testing.T) {
	c := mustRead(t, `{"op":"reboot","term":7,"paused":{"by":"ops","until":"2031","x":[1,{"a":"<"}]},"quorum":{"of":3},"n":1e3,"OP":"reboot"}`)
	if c.Known() || c.Op != "reboot" || c.Paused == nil || c.Paused.By != "ops" {
		t.Errorf("%+v", c)
	}
	c.Request = record.Request{Op: record.OpStepDown, Term: 9}
	c.Stand = &record.Stand{ID: "b", Term: 9}
	var got, want any
	for text, into := range map[string]*any{
		string(mustEncode(t, c)): &got,
		`{"op":"step-down","term":9,"paused":{"by":"ops","until":"2031","x":[1,{"a":"<"}]},
			"stand":{"id":"b","term":9},"quorum":{"of":3},"n":1e3}`: &want,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	again := mustRead(t, string(mustEncode(t, c)))
	if !reflect.DeepEqual(again, c) {
		t.Errorf("%+v, want %+v", again, c)
	}
	// Nor do they stay when what they belong to goes.
	c = mustRead(t, `{"paused":{"until":"2031"}}`)
	c.Paused = nil
	if b := mustEncode(t, c); string(b) != "{}" {
		t.Errorf("%s", b)
	}
	if b := mustEncode(t, mustRead(t, `{"quorum":3}`)); string(b) != `{"quorum":3}` {
		t.Errorf("%s", b)
	}
}

// Unknown fields that fill the record must not keep others from pausing a
// group.
func TestUnknownFieldsGiveWayToThoseThatAreNeeded(t *testing.T) {
	filler := strings.Repeat("x", store.MaxValue/2-20)
	c := mustRead(t, `{"a":"`+filler+`","paused":{"by":"ops","b":"`+filler+`"}}`)
	c.Request = record.Request{Op: record.OpStepDown, Term: 9, Reason: strings.Repeat("y", record.MaxWhy)}
	back := mustRead(t, string(mustEncode(t, c)))
	if back.Unknown != "" || back.Paused == nil || *back.Paused != (record.Pause{By: "ops"}) || back.Op != record.OpStepDown {
		t.Errorf("%.100v", back)
	}
	if len(c.Paused.Unknown) < len(filler) {
		t.Error("the record that was given has been changed")
	}
}
