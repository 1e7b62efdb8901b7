package proxy_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/proxy"
)

func TestClientThatGoesWhileItWaitsFreesItsSlot(t *testing.T) {
	for name, leave := range map[string]func(*client){
		"closes":                   func(c *client) { _ = c.Close() },
		"resets":                   func(c *client) { _ = c.SetLinger(0); _ = c.Close() },
		"resets after its request": func(c *client) { c.send("x"); _ = c.SetLinger(0); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			const slots = 3
			l := newLab(t, 20*time.Second)
			l.serve(proxy.Options{Wait: time.Hour, MaxConns: slots, Drain: -1})
			var clients []*client
			for range slots {
				clients = append(clients, l.dial())
			}
			l.until("all slots are taken", func(s proxy.Stats) bool { return s.Waiting == slots })
			for _, c := range clients {
				leave(c)
			}
			l.until("all slots are free", func(s proxy.Stats) bool { return s.Open == 0 && s.NoLeader == slots })
		})
	}
}

// The proxy cannot distinguish a client that has gone from a client that ends
// its request this way and waits for the answer.
func TestClientThatEndsItsRequestGetsItsAnswer(t *testing.T) {
	l := newLab(t, 20*time.Second)
	a := newBackend(t, "a")
	l.serve(proxy.Options{Wait: patience})
	c := l.dial().send("request")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	l.until("it waits", func(s proxy.Stats) bool { return s.Waiting == 1 && s.Waited == 0 })
	l.stand("a", a.ln.Addr().String())
	c.says("a").says("request").says("bye")
	if err := a.end(t); err != nil {
		t.Error(err)
	}
	l.until("it is over", func(s proxy.Stats) bool { return s.Open == 0 && s.Sent == uint64(len("request\n")) })
}
