package tasks

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestAnAcknowledgementIsOneOnlyIfItStatesARevisionAndNoError(t *testing.T) {
	for answer, want := range map[string]uint64{
		`{"stream":"KV_work","seq":12}`:                            12,
		`{"stream":"KV_work","seq":12,"duplicate": true}`:          12,
		`{"stream":"KV_work","domain":"hub","seq":12}`:             12,
		`{ "seq": 12, "stream": "KV_work" }`:                       12,
		`{"error":{"err_code":10071},"stream":"KV_work","seq":12}`: 0,
		`{"stream":"KV_work","seq":12,"error":{"err_code":10071}}`: 0,
		`{"stream":"","error":{"code":1},"a":"KV_work","seq":12}`:  0,
		`{"stream":"KV_work","seq":99999999999999999999}`:          0,
		`{"stream":"KV_work","seq":-1}`:                            0,
		`{"stream":"KV_work","seq":`:                               0,
		``:                                                         0,
	} {
		rev, err := outcome(&nats.Msg{Data: []byte(answer)})
		if rev != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d, %v; want %d", answer, rev, err, want)
		}
	}
	_, err := outcome(&nats.Msg{Data: []byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"KV_work","seq":0}`)})
	if !errors.Is(err, ErrConflict) {
		t.Errorf("%v, want a conflict", err)
	}
	if rev, ok := applied([]byte(`{"stream":"KV_work","seq":12}`)); rev != 12 || !ok {
		t.Errorf("the usual answer takes the long way: %d, %v", rev, ok)
	}
}
