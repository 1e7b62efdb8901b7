package tasks

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// sample is a record with something in each field.
func sample() wire.Record {
	return wire.Record{
		State: wire.Assigned, Payload: []byte("\x00payload\xff"), To: wire.Target{Worker: "w", Label: "l", Key: "k"}, Timeout: time.Minute,
		MaxAttempts: 3, Backoff: time.Second, Submitted: time.Date(2026, 11, 23, 15, 0, 0, 123456, time.FixedZone("", 3600)),
		Term: 7, Attempt: 2, Failures: 1, Worker: "w1", Run: "run", Result: []byte("r"), Error: "no",
	}
}

func TestRecordsAreWrittenAndReadAsEncodingJSONDoes(t *testing.T) {
	records := map[string]wire.Record{"zero": {}, "full": sample(), "least": {State: wire.Queued, Timeout: 1, MaxAttempts: 1}}
	for i := range reflect.TypeFor[wire.Record]().NumField() { // each field alone
		var r wire.Record
		reflect.ValueOf(&r).Elem().Field(i).Set(reflect.ValueOf(sample()).Field(i))
		records[reflect.TypeFor[wire.Record]().Field(i).Name] = r
	}
	for i := range reflect.TypeFor[wire.Target]().NumField() {
		var r wire.Record
		reflect.ValueOf(&r.To).Elem().Field(i).SetString("x")
		records["To."+reflect.TypeFor[wire.Target]().Field(i).Name] = r
	}
	for name, text := range map[string]string{"quoted": `"\`, "markup": "<&>", "control": "\n\x00\x7f", "no UTF-8": "\xff", "German": "\u00fc\u2028"} {
		r := sample()
		r.State, r.Worker, r.Error, r.To.Key = wire.State(text), text, text, text
		records[name] = r
	}
	for name, r := range records {
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := formatRecord(&r)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s, %v; want\n%s", name, got, err, want)
		}
		same(t, want)
	}
	for _, name := range []string{"zero", "full", "least", "To.Key", "Submitted"} {
		r := records[name]
		data, _ := formatRecord(&r)
		if _, ok := parsePlain(data); !ok {
			t.Errorf("%s is not read without encoding/json: %s", name, data)
		}
	}
	r := sample()
	r.Submitted = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if b, err := formatRecord(&r); err == nil {
		t.Errorf("a year that JSON cannot state: %s", b)
	}
}

// same reads what is written, as encoding/json does.
func same(t *testing.T, data []byte) {
	t.Helper()
	var want wire.Record
	wantErr := json.Unmarshal(data, &want)
	got, err := parseRecord(data)
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n%#v, %v; want\n%#v, %v", data, got, err, want, wantErr)
	}
	// Otherwise a leader would write, fail and write again.
	if err == nil && got.Validate() == nil {
		if _, err := formatRecord(&got); err != nil {
			t.Errorf("%s is valid, and cannot be written again: %v", data, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	full := sample()
	data, _ := formatRecord(&full)
	f.Add(data)
	for _, s := range []string{
		`{}`, `{"state":"queued","timeout":1,"max_attempts":1}`, `{"state":"queued","timeout":01,"max_attempts":1}`,
		`{"state":"queued","timeout":1e3,"max_attempts":1}`, `{"state":"q","payload":"","timeout":-1,"max_attempts":1}`,
		`{"state":"q","to":{},"timeout":1,"max_attempts":1} `, `{"state":"q","to":{"label":"l","key":"k"},"timeout":1,"max_attempts":99999999999999999999}`,
		`{"state":"q","payload":"====","timeout":1,"max_attempts":1}`, `{"state":"q","timeout":0,"max_attempts":0,"submitted":"x"}`,
		`{"state":"q","timeout":0,"max_attempts":0,"term":18446744073709551615,"error":"\u00fc"}`,
		`{"state":"queued","timeout":1,"max_attempts":1,"submitted":"2026-01-01T00:00:00+24:00"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { same(t, data) })
}

func BenchmarkRecord(b *testing.B) {
	r := sample()
	r.Payload = make([]byte, 100)
	data, _ := formatRecord(&r)
	b.Run("format", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = formatRecord(&r)
		}
	})
	b.Run("marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(r)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = parseRecord(data)
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r wire.Record
			_ = json.Unmarshal(data, &r)
		}
	})
}
