package runner

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

// Each connection takes a descriptor, and without one left no program starts. A
// connection without further requests is closed to make room.
func TestConnectionsThatAskNothingMoreDoNotPileUp(t *testing.T) {
	var said strings.Builder
	if _, err := openWeb(t.Context(), "127.0.0.1:0", web.Hosts{}, new(leader.ElectionConfig), &said); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(said.String(), "http://")
	address, _, _ := strings.Cut(rest, "/")
	closed := make(chan struct{}, maxConnections+1)
	for range maxConnections + 1 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		in := bufio.NewReader(c)
		if _, err = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body) // the status has come
		_ = res.Body.Close()
		go func() {
			_, _ = in.ReadByte() // which nobody sends
			closed <- struct{}{}
		}()
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Errorf("all of %d are kept", maxConnections+1)
	}
}
