package inspect_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

func entry(key, value string) store.Entry {
	return store.Entry{Key: key, Revision: 7, Value: []byte(value)}
}

func TestARecordNamesItsHolderAndTerm(t *testing.T) {
	for value, want := range map[string]inspect.Record{
		`{"id":"a","token":"secret","ttl":3000,"term":5}`: {ID: "a", Term: 5, Token: "secret", TTL: 3 * time.Second},
		`{"id":"a","token":"secret","ttl":3000}`:          {ID: "a", Term: 7, Token: "secret", TTL: 3 * time.Second}, // a claim is its own term
		`{"somebody":"else's"}`:                           {},
		`no JSON`:                                         {},
		``:                                                {},
	} {
		if got := inspect.ReadRecord(entry("g", value)); got != want {
			t.Errorf("%s: %+v, want %+v", value, got, want)
		}
	}
	if got := inspect.ReadRecord(store.Entry{Key: "g"}); got != (inspect.Record{}) {
		t.Errorf("of a key of which nothing is known: %+v", got)
	}
}

func TestAVacancyKeepsItsTermAndHasNoHolder(t *testing.T) {
	e := entry("g", `{"term":5,"reason":"resigned"}`)
	e.Tombstone = true
	if got, want := inspect.ReadRecord(e), (inspect.Record{Term: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestControlEntryContainsPauseAndRun(t *testing.T) {
	c, ok := inspect.ReadControl(entry(inspect.ControlKey("g"), `{"paused":{"by":"me","reason":"upgrade"},"ran":{"begin":60000,"id":"a","term":5}}`))
	run := inspect.Run{Begin: time.UnixMilli(60_000).UTC(), ID: "a", Term: 5}
	if !ok || c.Paused == nil || *c.Paused != (inspect.Pause{By: "me", Reason: "upgrade"}) || c.Ran == nil || !c.Ran.Equal(run) {
		t.Errorf("%+v %+v, %v", c.Paused, c.Ran, ok)
	}
	for _, other := range []inspect.Run{{}, {Begin: run.Begin, ID: "a", Term: 6}, {Begin: run.Begin, ID: "b", Term: 5}, {ID: "a", Term: 5}} {
		if c.Ran.Equal(other) {
			t.Errorf("%+v is equal to %+v", *c.Ran, other)
		}
	}
	for value, want := range map[string]bool{`{}`: true, `no JSON`: false} {
		if c, ok := inspect.ReadControl(entry("_ctl.g", value)); ok != want || c.Paused != nil || c.Ran != nil {
			t.Errorf("%s: %+v, %v", value, c, ok)
		}
	}
	if c, ok := inspect.ReadControl(store.Entry{Key: "_ctl.g"}); !ok || c != (inspect.Control{}) {
		t.Errorf("of a key of which nothing is known: %+v, %v", c, ok)
	}
}

func TestANotedRunLeavesAllElseAsItIs(t *testing.T) {
	const before = `{"paused":{"by":"me","since":1},"ran":{"begin":1,"id":"b"},"future":[1,2]}`
	value, err := inspect.NoteRun(entry("_ctl.g", before), inspect.Run{Begin: time.UnixMilli(60_000), ID: "a", Term: 5})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(value, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"paused": `{"by":"me","since":1}`, "ran": `{"begin":60000,"id":"a","term":5}`, "future": `[1,2]`,
	}
	for name, text := range want {
		if string(got[name]) != text {
			t.Errorf("%s: %s, want %s", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("fields %q", slices.Sorted(maps.Keys(got)))
	}
}

func TestARunIsNotedInPlaceOfWhatNobodyObeys(t *testing.T) {
	run := inspect.Run{Begin: time.UnixMilli(60_000), ID: "a", Term: 5}
	for _, e := range []store.Entry{{Key: "_ctl.g"}, entry("_ctl.g", "no JSON")} {
		value, err := inspect.NoteRun(e, run)
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := inspect.ReadControl(entry("_ctl.g", string(value))); !ok || c.Ran == nil || !c.Ran.Equal(run) {
			t.Errorf("%s is read as %+v, %v", value, c, ok)
		}
	}
	_, err := inspect.NoteRun(store.Entry{}, inspect.Run{ID: strings.Repeat("x", store.MaxValue)})
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("of a name that no store has room for: %v", err)
	}
}
