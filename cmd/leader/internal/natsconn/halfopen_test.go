package natsconn

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// A vanishing server answers what a connection needs to be one, until it is
// gone: then it takes everything and sends nothing, like a machine without
// power behind a network that drops its packets.
type vanishing struct{ gone atomic.Bool }

// Dial implements nats.CustomDialer. Nothing is there to connect to any more.
func (v *vanishing) Dial(string, string) (net.Conn, error) {
	if v.gone.Load() {
		return nil, io.ErrClosedPipe
	}
	client, server := net.Pipe()
	go v.serve(server)
	return client, nil
}

func (v *vanishing) serve(conn net.Conn) {
	_, _ = io.WriteString(conn, `INFO {"server_id":"v","version":"2.15.2","proto":1,"max_payload":1048576}`+"\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "PING") && !v.gone.Load() {
			_, _ = io.WriteString(conn, "PONG\r\n")
		}
	}
}

// The kernel does not report it: a client that only listens sends nothing that
// could be missed.
func TestAServerThatVanishesIsMissedWithinHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vanishing{}
		nc, err := Settings{URL: "nats://127.0.0.1:4222"}.Connect("leader test", nats.SetCustomDialer(v))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		time.Sleep(time.Hour + time.Second)
		if !nc.IsConnected() {
			t.Fatal("a server that answers is taken for gone")
		}
		v.gone.Store(true)
		gone := time.Now()
		for nc.IsConnected() {
			time.Sleep(time.Second)
			if waited := time.Since(gone); waited > 30*time.Second {
				t.Fatalf("still connected %v after the server has vanished", waited)
			}
		}
	})
}
