package record_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

func full() record.Record {
	return record.Record{
		ID: "worker-1", Token: "3f9a6f8d-1a2b-4cde-9f1a-c0b123456789", Priority: -7,
		Meta: map[string]string{"zone": "eu\"west", "☃": ""}, TTL: 5000, Term: 11, Renewal: 17, Address: "[::1]:4222", Drift: 0.1,
		Params: params("{}\x00\xff"), Acquired: 1795201843456, Renewed: record.MaxMoment,
	}
}

func params(s string) *record.Params {
	p := record.Params(s)
	return &p
}

func vacancy() record.Record {
	return record.Record{Token: "t", Term: 9, Reason: "resigned", By: "worker-1", Successor: "worker-2", Acquired: 1795201843456, Renewed: 1795201843457}
}

func entry(value string) store.Entry {
	return store.Entry{Key: "g", Revision: 12, Value: []byte(value)}
}

func mustEncode(t *testing.T, r interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAVacancyIsATombstone(t *testing.T) {
	seen, got := record.Read(store.Entry{Revision: 12, Value: mustEncode(t, vacancy())})
	if seen.Kind != machine.Malformed || !reflect.DeepEqual(got, record.Record{}) {
		t.Errorf("a value with a reason alone, which anybody may have put there, reads as %v: %+v", seen.Kind, got)
	}
}

func TestEncodedRecordIsDecodedUnchanged(t *testing.T) {
	for kind, want := range map[machine.Kind]record.Record{machine.Held: full(), machine.Vacant: vacancy()} {
		for _, tombstone := range []bool{false, true} {
			if kind == machine.Vacant && !tombstone {
				continue // that is none: see TestAVacancyIsATombstone
			}
			e := store.Entry{Revision: 12, Value: mustEncode(t, want), Tombstone: tombstone}
			seen, got := record.Read(e)
			if seen.Kind != kind || seen.Rev != 12 || !reflect.DeepEqual(got, want) {
				t.Errorf("tombstone %v: read %v, rev %d\n%+v, want\n%+v", tombstone, seen.Kind, seen.Rev, got, want)
			}
			if back := record.Of(seen.Rec, record.About{Meta: got.Meta, Address: got.Address, Params: got.Params, Version: got.Version, Drift: float64(got.Drift), Standings: got.Standings, Acquired: got.Acquired, Renewed: got.Renewed}); !reflect.DeepEqual(back, want) {
				t.Errorf("through the core: %+v, want %+v", back, want)
			}
		}
	}
}

// The seed's payload, written by another program, without the fields that came
// later.
func TestForeignPayloadOfTheOriginalFormIsAHolder(t *testing.T) {
	seen, r := record.Read(entry(`{
		"id": "instance-1234", "token": "3f9a6f8d-1a2b-4cde-9f1a-c0b123456789", "priority": 10,
		"meta": {"hostname": "node-01", "region": "eu-west-1"}}`))
	if seen.Kind != machine.Held || seen.Rec.ID != "instance-1234" || seen.Rec.Priority != 10 || r.Meta["region"] != "eu-west-1" {
		t.Fatalf("%v %+v", seen, r)
	}
	if seen.Rec.TTL != 0 {
		t.Fatalf("a TTL of %v from nowhere", seen.Rec.TTL)
	}
}

func TestUnknownFieldsChangeNothing(t *testing.T) {
	plain, _ := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"term":4}`))
	more, _ := record.Read(entry(`{"id":"a","nested":{"id":"b","reason":["x"]},"token":"t","v":2,"ttl":3000,"term":4,"x":null}`))
	if plain != more {
		t.Fatalf("%+v\n%+v", plain, more)
	}
}

// The drift came later than the record, and only warns. A program that does not
// know it, or means something else by the word, is a holder like any other.
func TestInvalidDriftIsIgnored(t *testing.T) {
	plain, _ := record.Read(entry(`{"id":"a","token":"t","ttl":3000}`))
	for _, drift := range []string{"0", "-0.1", "1", "7", "1e400", "null", `"fast"`, `{"of":1}`, "[0.1]", "true"} {
		seen, r := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"drift":` + drift + `}`))
		if seen != plain || r.Drift != 0 {
			t.Errorf("drift %s reads as %v %+v", drift, seen, r)
		}
	}
	if _, r := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"drift":0.25}`)); r.Drift != 0.25 {
		t.Errorf("drift %v", r.Drift)
	}
	if b := string(mustEncode(t, record.Record{ID: "a", Token: "t"})); strings.Contains(b, "drift") {
		t.Errorf("a drift of which nothing is known is written: %s", b)
	}
}

// Nothing that the election does depends on them: a program that means
// something else by the word is a holder like any other.
func TestInvalidParamsAreIgnored(t *testing.T) {
	plain, _ := record.Read(entry(`{"id":"a","token":"t","ttl":3000}`))
	for _, value := range []string{"null", `""`, "7", `"no base64"`, `"eA"`, `{"of":1}`, `["eA=="]`, "true"} {
		seen, r := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"params":` + value + `}`))
		if seen != plain || r.Params != nil {
			t.Errorf("params %s read as %v %+v", value, seen, r)
		}
	}
	if _, r := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"params":"eA=="}`)); r.Params == nil || string(*r.Params) != "x" {
		t.Errorf("params %v", r.Params)
	}
	if b := string(mustEncode(t, record.Record{ID: "a", Token: "t"})); strings.Contains(b, "params") {
		t.Errorf("params of which nothing is known are written: %s", b)
	}
}

// The times came later than the record, and nothing is decided by them. A
// program that does not know them, or means something else by the words, is a
// holder like any other.
func TestInvalidTimesAreIgnored(t *testing.T) {
	plain, _ := record.Read(entry(`{"id":"a","token":"t","ttl":3000}`))
	for _, field := range []string{"acquired", "renewed"} {
		of := func(value string) (machine.Seen, record.Moment, record.Moment) {
			seen, r := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"` + field + `":` + value + `}`))
			if field == "renewed" {
				return seen, r.Renewed, r.Acquired
			}
			return seen, r.Acquired, r.Renewed
		}
		for _, value := range []string{
			"0", "-1", "1.5", "1e3", "1e400", "140737488355329", "99999999999999999999999", "null", "true", `"1795201843456"`, `"2026-11-25"`, `{"of":1}`, "[1]",
		} {
			if seen, m, other := of(value); seen != plain || m != 0 || other != 0 || !m.Time().IsZero() {
				t.Errorf("%s %s reads as %v, %v %v", field, value, seen, m, other)
			}
		}
		seen, m, other := of("1795201843456")
		if want := time.Date(2026, 11, 20, 19, 10, 43, 456e6, time.UTC); seen != plain || !m.Time().Equal(want) || other != 0 {
			t.Errorf("%s: %v, want %v", field, m.Time(), want)
		}
	}
	if b := string(mustEncode(t, record.Record{ID: "a", Token: "t"})); strings.Contains(b, "acquired") || strings.Contains(b, "renewed") {
		t.Errorf("times of which nothing is known are written: %s", b)
	}
}

func TestAMomentIsATimeThatCanBeWrittenAsText(t *testing.T) {
	for _, m := range []record.Moment{0, 1, record.MaxMoment} {
		if _, err := m.Time().In(time.FixedZone("east", 14*60*60)).MarshalJSON(); err != nil {
			t.Error(err)
		}
		if back := record.MomentOf(m.Time()); back != m {
			t.Errorf("%d, want %d", back, m)
		}
	}
	for _, at := range []time.Time{{}, time.UnixMilli(-1), record.MaxMoment.Time().Add(time.Millisecond), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if m := record.MomentOf(at); m != 0 {
			t.Errorf("%v is %d", at, m)
		}
	}
	for ns, want := range map[int64]record.Moment{math.MinInt64: 0, -1e6: 0, 999_999: 0, 1e6: 1, math.MaxInt64: math.MaxInt64 / 1_000_000} {
		if m := record.MomentAt(ns); m != want {
			t.Errorf("%d ns is %d, want %d", ns, m, want)
		}
	}
}

func TestRevisionZeroIsAbsentAndAnEmptyTombstoneIsBare(t *testing.T) {
	if seen, _ := record.Read(store.Entry{Key: "g"}); seen != (machine.Seen{Kind: machine.Absent}) {
		t.Errorf("%+v", seen)
	}
	if seen, _ := record.Read(store.Entry{Key: "g", Revision: 3, Tombstone: true}); seen != (machine.Seen{Kind: machine.Bare, Rev: 3}) {
		t.Errorf("%+v", seen)
	}
}

func TestInvalidRecordIsMalformedAndEmpty(t *testing.T) {
	for name, value := range map[string]string{
		"nothing":             "",
		"text":                "leader=a",
		"an empty object":     "{}",
		"null":                "null",
		"an array":            `[{"id":"a"}]`,
		"a string":            `"a"`,
		"a number":            "1",
		"cut off":             `{"id":"a","token":"t"`,
		"two values":          `{"id":"a"}{"id":"b"}`,
		"trailing zero bytes": "{\"id\":\"a\"}\x00\x00",
		"a byte order mark":   "\ufeff" + `{"id":"a"}`,
		"no id, no reason":    `{"token":"t","ttl":3000}`,
		"empty id and reason": `{"id":"","reason":""}`,
		"null id and reason":  `{"id":null,"reason":null}`,
		"an id of a number":   `{"id":1}`,
		"a negative TTL":      `{"id":"a","ttl":-1}`,
		"a huge TTL":          `{"id":"a","ttl":9007199254740993}`,
		"a TTL past int64":    `{"id":"a","ttl":9223372036854775808}`,
		"a fractional TTL":    `{"id":"a","ttl":0.5}`,
		"a TTL of text":       `{"id":"a","ttl":"3s"}`,
		"an exponent":         `{"id":"a","term":1e99}`,
		"a negative term":     `{"id":"a","term":-1}`,
		"a huge term":         `{"id":"a","term":9007199254740993}`,
		"a huge renewal":      `{"id":"a","renewal":18446744073709551615}`,
		"a huge priority":     `{"id":"a","priority":1` + strings.Repeat("0", 40) + `}`,
		"meta of numbers":     `{"id":"a","meta":{"n":1}}`,
		"deep nesting":        `{"id":"a","x":` + strings.Repeat("[", 11000),
		"an invalid escape":   `{"id":"\q"}`,
		"a raw control byte":  "{\"id\":\"a\x01\"}",
		"one id of a number":  `{"id":1,"id":"a"}`,
		"too long":            `{"id":"a","x":"` + strings.Repeat("x", store.MaxValue) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, tombstone := range []bool{false, true} {
				if value == "" && tombstone {
					continue // that is a bare tombstone
				}
				e := entry(value)
				e.Tombstone = tombstone
				seen, r := record.Read(e)
				if (seen != machine.Seen{Kind: machine.Malformed, Rev: 12}) || !reflect.DeepEqual(r, record.Record{}) {
					t.Errorf("tombstone %v: %+v %+v", tombstone, seen, r)
				}
			}
		})
	}
}

func TestDeepNestingWithinTheSizeDoesNotExhaustTheStack(t *testing.T) {
	value := `{"id":"a","x":` + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + `}`
	if seen, _ := record.Read(entry(value)); seen.Kind != machine.Held {
		t.Fatalf("%v", seen.Kind)
	}
}

func TestLastOfDuplicateFieldsCounts(t *testing.T) {
	seen, _ := record.Read(entry(`{"id":"a","id":"b","ttl":1,"ttl":2000}`))
	if seen.Kind != machine.Held || seen.Rec.ID != "b" || seen.Rec.TTL != 2*time.Second {
		t.Fatalf("%+v", seen)
	}
}

func TestInvalidUTF8IsReplacedAndNotTrusted(t *testing.T) {
	seen, r := record.Read(entry("{\"id\":\"a\xff\",\"ttl\":1000}"))
	if seen.Kind != machine.Held || r.ID != "a\ufffd" {
		t.Fatalf("%+v %q", seen, r.ID)
	}
}

func TestTTLNeverOverflowsNorTurnsNegative(t *testing.T) {
	for _, ms := range []int64{0, 1, 3_600_000, math.MaxInt64/int64(time.Millisecond) + 1, 1 << 53} {
		seen, _ := record.Read(entry(fmt.Sprintf(`{"id":"a","ttl":%d}`, ms)))
		if seen.Kind != machine.Held || seen.Rec.TTL < 0 || ms > 3_600_000 && seen.Rec.TTL < time.Hour {
			t.Errorf("ttl %d: %v %v", ms, seen.Kind, seen.Rec.TTL)
		}
	}
}

func TestRecordsBeyondWhatEveryStoreTakesAreNotEncoded(t *testing.T) {
	r := full()
	r.Meta = map[string]string{"x": strings.Repeat("x", store.MaxValue)}
	if b, err := r.Encode(); err == nil {
		t.Fatalf("%d bytes", len(b))
	}
	r.Meta = map[string]string{"x": strings.Repeat("x", store.MaxValue-400)}
	if b := mustEncode(t, r); len(b) > store.MaxValue {
		t.Fatalf("%d bytes", len(b))
	}
}

func TestVacancyDropsTheDescriptionOfTheHolder(t *testing.T) {
	v := record.Of(machine.Record{Token: "t", Reason: "stopped"}, record.About{Meta: map[string]string{"k": "v"}, Address: "addr", Params: params("x"), Version: "1"})
	if b := mustEncode(t, v); bytes.Contains(b, []byte("meta")) || bytes.Contains(b, []byte("addr")) || bytes.Contains(b, []byte("params")) {
		t.Fatalf("%s", b)
	}
}

func TestRequestsAreReadBackAndOthersIgnored(t *testing.T) {
	for _, want := range []record.Control{
		{Request: record.Request{Op: record.OpStepDown, Term: 7, By: "ops", Reason: "maintenance"}},
		{Request: record.Request{Op: record.OpTransfer, Term: 7, Successor: "b"}},
		{Paused: &record.Pause{By: "ops", Reason: "upgrade"}},
		{Stand: &record.Stand{ID: "b", Term: 7, Priority: -2, Version: "1.2.3", Takeover: true}},
		{},
	} {
		got, ok := record.ReadControl(store.Entry{Revision: 2, Value: mustEncode(t, want)})
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v, want %+v", got, ok, want)
		}
	}
	for name, e := range map[string]store.Entry{
		"text":                       entry("step-down"),
		"an array":                   entry("[]"),
		"an endless operation":       entry(`{"op":"` + strings.Repeat("x", 257) + `","term":7}`),
		"a transfer to nobody":       entry(`{"op":"transfer","term":7}`),
		"a negative term":            entry(`{"op":"step-down","term":-7}`),
		"a fractional term":          entry(`{"op":"step-down","term":7.5}`),
		"a huge term":                entry(`{"op":"step-down","term":9007199254740993}`),
		"a huge term of a standing":  entry(`{"stand":{"id":"b","term":18446744073709551615}}`),
		"two requests":               entry(`{"op":"step-down","term":7}{}`),
		"longer than stores promise": entry(`{"op":"step-down","term":7,"reason":"` + strings.Repeat("x", store.MaxValue) + `"}`),
	} {
		if r, ok := record.ReadControl(e); ok {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, e := range map[string]store.Entry{
		"never written": {Key: "_ctl.g"}, "deleted": {Revision: 2, Tombstone: true}, "null": entry("null"),
	} {
		if r, ok := record.ReadControl(e); !ok || r != (record.Control{}) {
			t.Errorf("%s: %v %+v", name, ok, r)
		}
	}
}

// A term is the revision of its first write, so no term exceeds the revision of
// its record. Observers, and everything that remembers the largest term, would
// prefer a larger number to all later terms, long after the record is gone.
func TestTermBeyondTheRevisionOfItsRecordIsTheRevision(t *testing.T) {
	for value, tombstone := range map[string]bool{
		`{"id":"a","token":"t","ttl":3000,"term":%d}`: false,
		`{"token":"t","term":%d,"reason":"resigned"}`: true,
	} {
		for term, want := range map[uint64]uint64{11: 11, 12: 12, 13: 12, 1 << 53: 12} {
			e := entry(fmt.Sprintf(value, term))
			e.Tombstone = tombstone
			if seen, r := record.Read(e); seen.Term() != want || r.Term != want {
				t.Errorf("term %d at revision 12, tombstone %v: %d, %d", term, tombstone, seen.Term(), r.Term)
			}
		}
	}
}

// A candidate that gives up its claim repeats the words of the vacancy that it
// claimed, so overlong words would make that release too long.
func TestWordsThatNoVacancyHoldsAreNotRead(t *testing.T) {
	read := func(r record.Record) (machine.Kind, record.Record) {
		seen, got := record.Read(store.Entry{Revision: 12, Value: mustEncode(t, r), Tombstone: true})
		return seen.Kind, got
	}
	long, want := vacancy(), vacancy()
	long.By, long.Why, long.Successor = strings.Repeat("b", record.MaxName+1), strings.Repeat("w", record.MaxWhy+1), strings.Repeat("s", record.MaxName+1)
	want.By, want.Successor = "", ""
	if kind, got := read(long); kind != machine.Vacant || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %.300v, want %+v", kind, got, want)
	}
	long = vacancy()
	long.Reason = strings.Repeat("r", record.MaxReason+1)
	if kind, got := read(long); kind != machine.Malformed {
		t.Errorf("a reason that no candidate has is permission to lead: %+v", got)
	}
}

func TestVersionThatIsNoneIsNotRead(t *testing.T) {
	for _, version := range []string{"1 2", "<", strings.Repeat("1", record.MaxVersion+1)} {
		if seen, r := record.Read(entry(`{"id":"a","version":"` + version + `"}`)); seen.Kind != machine.Held || r.Version != "" {
			t.Errorf("%v, version %q", seen.Kind, r.Version)
		}
	}
}

// Elections ignore runs, and obey the pause beside an invalid one.
func TestRunThatIsNoneIsNotRead(t *testing.T) {
	for _, run := range []string{
		`{"begin":-1}`, `{"begin":140737488355329}`, `{"begin":9223372036854775807}`, `{"begin":1,"term":9007199254740993}`,
		`{"begin":1,"id":"` + strings.Repeat("i", record.MaxName+1) + `"}`,
	} {
		c, ok := record.ReadControl(entry(`{"paused":{"by":"ops"},"ran":` + run + `}`))
		if !ok || c.Paused == nil || c.Ran != nil {
			t.Errorf("%.60s: %v, paused %+v, ran %.60v", run, ok, c.Paused, c.Ran)
		}
	}
}

// Standings only order who goes first. Wrong ones are dropped; the record
// beside them remains valid.
func TestInvalidStandingsDoNotInvalidateTheRecord(t *testing.T) {
	_, r := record.Read(entry(`{"id":"a","standings":[{"priority":3},{"priority":2,"age":-1},{"version":"<"},{"version":"` +
		strings.Repeat("1", 65) + `"},{"version":"1.0-rc.1+b_2"}]}`))
	if want := []record.Standing{{Priority: 3}, {Version: "1.0-rc.1+b_2"}}; !reflect.DeepEqual(r.Standings, want) {
		t.Errorf("%+v, want %+v", r.Standings, want)
	}
	_, r = record.Read(entry(`{"id":"a","standings":[` + strings.Repeat(`{"priority":3},`, 20) + `{}]}`))
	if r.ID != "a" || len(r.Standings) != record.MaxStandings {
		t.Errorf("%+v", r)
	}
}

// The names go into the vacancy that answers the request. A name that does not
// fit there would let the release fail, and cost the group a whole lease.
func TestRequestsWithNamesThatNoVacancyHoldsAreIgnored(t *testing.T) {
	long := strings.Repeat("<", 300) // each takes six bytes in JSON
	for _, r := range []record.Control{
		{Request: record.Request{Op: record.OpStepDown, Term: 7, By: long}},
		{Request: record.Request{Op: record.OpTransfer, Term: 7, Successor: long}},
		{Request: record.Request{Op: record.OpStepDown, Term: 7, Reason: long + long}},
		{Paused: &record.Pause{By: long}},
		{Paused: &record.Pause{Reason: long + long}},
		{Stand: &record.Stand{ID: long, Term: 7}},
		{Stand: &record.Stand{Term: 7}},
		{Stand: &record.Stand{ID: "b", Term: 7, Version: "<"}},
	} {
		if _, ok := record.ReadControl(store.Entry{Revision: 2, Value: mustEncode(t, r)}); ok {
			t.Errorf("%.40v was taken", r)
		}
	}
}

func TestRunKeyIsAmongTheControlKeys(t *testing.T) {
	if k := record.RanKey("roles/db"); k != "_ctl._ran.roles/db" || !store.ValidKey(k) {
		t.Errorf("%q", k)
	}
}

func TestControlKeyIsValidAndDiffersFromTheGroup(t *testing.T) {
	if k := record.ControlKey("roles/db"); k != "_ctl.roles/db" || !store.ValidKey(k) {
		t.Fatal(k)
	}
}
