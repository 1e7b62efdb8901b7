package natsconn

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Refused reports whether a server refused the login. Nothing else that a
// server does is final: behind a load balancer it may be another one next time.
func Refused(err error) bool {
	for _, refusal := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// Outages returns the options by which a connection reports, by say, that its
// server is lost, why it cannot be reached, at once and then each minute, and
// that it is back. After a refused login it waits for longer each time, up to
// half a minute: servers log and count each.
func Outages(say func(text string)) []nats.Option {
	o := &outages{say: say}
	return []nats.Option{
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				o.lost(err)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { o.failed(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { o.back(nc.ConnectedUrlRedacted()) }),
		nats.ConnectHandler(func(nc *nats.Conn) { o.back(nc.ConnectedUrlRedacted()) }),
		nats.CustomReconnectDelay(func(int) time.Duration { return o.delay() }),
	}
}

// outages is what a connection has reported. Its methods may be called
// concurrently.
type outages struct {
	say func(text string)

	mu      sync.Mutex
	away    bool
	text    string    // of the last report
	at      time.Time // of the last report
	refused int       // logins in a row
}

// sayAgain is the time from one report of the same trouble to the next.
const sayAgain = time.Minute

func (o *outages) lost(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report(fmt.Sprintf("lost the connection: %v", cmp.Or(err, nats.ErrConnectionClosed)))
}

func (o *outages) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if Refused(err) {
		o.refused++
		o.report(fmt.Sprintf("the server refused the login: %v", err))
		return
	}
	o.refused = 0
	o.report(fmt.Sprintf("cannot reach the server: %v", withoutURL(err)))
}

// report reports a trouble, unless it did within the last minute. mu is held.
func (o *outages) report(text string) {
	now := time.Now()
	if o.away && o.text == text && now.Sub(o.at) < sayAgain {
		return
	}
	o.away, o.text, o.at = true, text, now
	o.say(text)
}

func (o *outages) back(url string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		o.say("connected to " + url)
	}
	o.away, o.refused = false, 0
}

// The time from one attempt at all servers to the next.
const (
	reconnectDelay  = 100 * time.Millisecond
	reconnectJitter = 50 * time.Millisecond
	maxRefusedDelay = 30 * time.Second
)

func (o *outages) delay() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := min(reconnectDelay<<min(o.refused, 16), maxRefusedDelay)
	return d + rand.N(reconnectJitter)
}
