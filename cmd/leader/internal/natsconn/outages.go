package natsconn

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Refused reports whether a server refused the login. Nothing else that a
// server does is final: behind a load balancer it may be another one next time.
func Refused(err error) bool { return refusal(err) != nil }

// refusal returns the refusal that an error is, without a server's own words for
// it, or nil.
func refusal(err error) error {
	for _, refusal := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	} {
		if errors.Is(err, refusal) {
			return refusal
		}
	}
	return nil
}

// Outages returns the options by which a connection reports, through say, that
// its server is lost, why each server cannot be reached, at once and then each
// minute, and that it is back. After a refused login it waits for longer each
// time, up to half a minute: servers log and count each.
func Outages(say func(text string)) []nats.Option {
	o := &outages{say: say}
	return []nats.Option{
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				o.lost(nc, err)
			}
		}),
		nats.ReconnectErrHandler(o.failed),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			if Refused(err) {
				o.failed(nc, err)
			}
		}),
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
	conn    *nats.Conn           // nil before the first trouble
	said    map[string]time.Time // when each trouble was reported last; empty while there is a connection
	refused bool                 // a login, in this round of all servers
	rounds  int                  // in a row in which a login was refused
}

const (
	// sayAgain is the time from one report of the same trouble to the next.
	sayAgain = time.Minute
	// maxTroubles bounds the number of different troubles that are reported.
	maxTroubles = 32
)

func (o *outages) lost(nc *nats.Conn, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn = nc
	o.report(fmt.Sprintf("lost the connection: %v", cmp.Or(err, nats.ErrConnectionClosed)))
}

func (o *outages) failed(nc *nats.Conn, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn = nc
	if errors.Is(err, nats.ErrNoServers) {
		return // no reason: each server's own error is reported
	}
	if refused := refusal(err); refused != nil {
		o.refused = true
		o.report(fmt.Sprintf("the server refused the login: %v", refused))
		return
	}
	o.report(fmt.Sprintf("cannot reach the server: %v", withoutPort(withoutURL(err))))
}

// withoutPort leaves out the client's own address, which differs each time.
func withoutPort(err error) error {
	if op, ok := err.(*net.OpError); ok { //nolint:errorlint // a text around it is kept
		same := *op
		same.Source = nil
		return &same
	}
	return err
}

// report reports a trouble, unless it did within the last minute. mu is held.
func (o *outages) report(text string) {
	now := time.Now()
	if at, known := o.said[text]; known && now.Sub(at) < sayAgain || !known && len(o.said) == maxTroubles {
		return
	}
	if o.said == nil {
		o.said = make(map[string]time.Time)
	}
	o.said[text] = now
	o.say(text)
}

func (o *outages) back(url string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.said) > 0 {
		o.say("connected to " + url)
	}
	o.said, o.refused, o.rounds = nil, false, 0
}

// The time from one attempt at all servers to the next.
const (
	reconnectDelay  = 100 * time.Millisecond
	reconnectJitter = 50 * time.Millisecond
	maxRefusedDelay = 30 * time.Second
)

// delay is called after each round. nats.go calls no handler if a server fails
// after the dial, and keeps the error until the next attempt.
func (o *outages) delay() time.Duration {
	o.mu.Lock()
	nc := o.conn
	o.mu.Unlock()
	if nc != nil {
		if err := nc.LastError(); err != nil {
			o.failed(nc, err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused {
		o.rounds++
	} else {
		o.rounds = 0
	}
	o.refused = false
	return min(reconnectDelay<<min(o.rounds, 16), maxRefusedDelay) + rand.N(reconnectJitter)
}
