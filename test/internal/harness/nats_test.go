package harness_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A responder in the stream's place answers as a cluster does that has not yet
// noted the write before.
func TestASwapIsMadeAgainWhileAnotherIsUnderWay(t *testing.T) {
	srv := natslab.Start(t)
	var asked atomic.Int64
	if _, err := srv.Connect(t).Subscribe("$KV.b.>", func(m *nats.Msg) {
		switch asked.Add(1) {
		case 1, 2:
			_ = m.Respond([]byte(`{"stream":"KV_b","error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`))
		case 3:
			_ = m.Respond([]byte(`{"stream":"KV_b","seq":7}`))
		default: // a conflict is final
			_ = m.Respond(fmt.Appendf(nil, `{"stream":"KV_b","error":{"code":400,"err_code":10071,"description":"expected %s"}}`, m.Header.Get("Nats-Expected-Last-Subject-Sequence")))
		}
	}); err != nil {
		t.Fatal(err)
	}
	swaps, err := harness.NATS{Servers: harness.Servers{URLs: []string{srv.URL()}}}.Swaps("b")
	if err != nil {
		t.Fatal(err)
	}
	defer swaps.Close()
	if _, err := swaps.Once(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := swaps.Once(t.Context()); err == nil || asked.Load() != 4 {
		t.Errorf("a conflict: %v, after %d questions", err, asked.Load())
	}
}
