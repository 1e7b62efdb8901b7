package natsconn

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Servers that accept, and send nothing, like a frozen server.
func TestAConnectionIsMadeWithinATimeWhateverTheNumberOfServers(t *testing.T) {
	t.Parallel()
	var urls []string
	for range 20 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		urls = append(urls, "nats://"+l.Addr().String())
	}
	const patience = 2 * time.Second
	begin := time.Now()
	_, err := Settings{URL: strings.Join(urls, ",")}.ConnectWithin(patience, "test", nats.Timeout(patience))
	if err == nil {
		t.Fatal("connected to nobody")
	}
	if took := time.Since(begin); took > 5*patience { // and not 20 times
		t.Errorf("took %v", took)
	}
}
