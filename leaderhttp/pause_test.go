package leaderhttp_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
)

// pipes brings connections in virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A leader that has not heard yet of its own success refuses. The clients of a
// crashed leader all come at once, and may have tried for a long time.
func TestTheNextLeaderIsAskedAgainSoonHoweverLongTheLastOneWasTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failover = 5 * time.Second
		asked := 0
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			if asked == 1 {
				refusal(503, probe.RefusalNoLeader)(w, r)
			}
		})}
		go func() { _ = server.Serve(l) }()
		tries := 0
		below := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			if address != "next.example:80" {
				tries++
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			near, far := net.Pipe()
			l.conns <- far
			return near, nil
		}}
		defer func() { below.CloseIdleConnections(); _ = server.Close() }()
		news := make(chan leader.LeaderInfo, 1)
		client := reach(t, told(news, at("gone", "gone.example:80", 1)), leaderhttp.Options{Transport: below})
		time.AfterFunc(failover, func() { news <- at("next", "next.example:80", 2) })
		begun := time.Now()
		code, _, err := post(client, "http://reports/", strings.NewReader("hello"))
		if err != nil || code != http.StatusOK || tries < 2 || asked != 2 {
			t.Fatalf("%d, %v, after %d tries at the leader that is gone, and %d at the next one", code, err, tries, asked)
		}
		if waited := time.Since(begun) - failover; waited > 10*time.Millisecond {
			t.Errorf("waited for %v once the next leader was known", waited)
		}
	})
}
