package tasks

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// The field names of records must not change: records outlive the program that
// wrote them, and programs of two versions share a bucket.
func TestRecordsAreWrittenAndReadAsByEarlierVersions(t *testing.T) {
	for stored, r := range map[string]wire.Record{
		`{"state":"queued","timeout":1,"max_attempts":1}`: {State: wire.Queued, Timeout: 1, MaxAttempts: 1},
		`{"state":"assigned","payload":"AHBheWxvYWT/","to":{"worker":"w","label":"l","key":"\u003cü"},"timeout":60000000000,"max_attempts":3,"backoff":1000000000,"submitted":"2026-11-23T15:00:00.000123456Z","term":7,"attempt":2,"failures":1,"worker":"w1","run":"run","result":"cg==","error":"no"}`: {
			State: wire.Assigned, Payload: []byte("\x00payload\xff"), To: wire.Target{Worker: "w", Label: "l", Key: "<ü"}, Timeout: time.Minute,
			MaxAttempts: 3, Backoff: time.Second, Submitted: time.Date(2026, 11, 23, 15, 0, 0, 123456, time.UTC),
			Term: 7, Attempt: 2, Failures: 1, Worker: "w1", Run: "run", Result: []byte("r"), Error: "no",
		},
	} {
		if written, err := json.Marshal(r); err != nil || string(written) != stored {
			t.Errorf("the record is written as\n%s, %v; want\n%s", written, err, stored)
		}
		read, err := entry("id", 1, nil, []byte(stored))
		if err != nil || !reflect.DeepEqual(read.Record, r) {
			t.Errorf("%s\nis read as\n%#v, %v; want\n%#v", stored, read.Record, err, r)
		}
	}
}

// A leader would write, fail and write again if a record that it reads could
// not be written.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"state":"queued","timeout":1,"max_attempts":1}`, `{"state":"queued","timeout":1e3,"max_attempts":1}`,
		`{"state":"queued","to":{},"timeout":1,"max_attempts":1} `, `{"state":"queued","timeout":1,"max_attempts":99999999999999999999}`,
		`{"state":"queued","payload":"====","timeout":1,"max_attempts":1}`, `{"state":"queued","timeout":1,"max_attempts":1,"submitted":"x"}`,
		`{"state":"failed","timeout":1,"max_attempts":1,"term":18446744073709551615,"error":"\u00fc\xff"}`,
		`{"state":"queued","timeout":1,"max_attempts":1,"submitted":"2026-01-01T00:00:00+24:00"}`,
		`{"state":"queued","timeout":1,"max_attempts":1,"submitted":"9999-12-31T23:59:59-01:00"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := entry("id", 1, nil, data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || !reflect.ValueOf(e.Record).IsZero() {
				t.Errorf("%s: %#v, %v; want no record, and an error that matches ErrInvalid", data, e.Record, err)
			}
			return
		}
		if _, err := json.Marshal(e.Record); err != nil {
			t.Errorf("%s is valid, and cannot be written again: %v", data, err)
		}
	})
}
