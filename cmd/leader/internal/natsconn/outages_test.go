package natsconn

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

func TestAnOutageIsNamedAtOnceAndThenEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		o := &outages{say: func(text string) { said = append(said, text) }}
		o.back("nats://a") // the first connection is no news
		o.lost(io.EOF)
		for range 121 {
			o.failed(errors.New("connection refused"))
			time.Sleep(time.Second)
		}
		o.back("nats://b")
		want := []string{
			"lost the connection: EOF", "cannot reach the server: connection refused", "cannot reach the server: connection refused",
			"cannot reach the server: connection refused", "connected to nats://b",
		}
		if !slices.Equal(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	})
}

func TestRefusedLoginsBackOff(t *testing.T) {
	o := &outages{say: func(string) {}}
	o.failed(io.EOF)
	if d := o.delay(); d > reconnectDelay+reconnectJitter {
		t.Errorf("a server that is away is tried again after %v", d)
	}
	for range 100 {
		o.failed(nats.ErrAuthorization)
	}
	if d := o.delay(); d < maxRefusedDelay {
		t.Errorf("after 100 refusals it tries again after %v", d)
	}
	o.back("nats://a")
	if d := o.delay(); d > reconnectDelay+reconnectJitter {
		t.Errorf("after a login it tries again after %v", d)
	}
}
