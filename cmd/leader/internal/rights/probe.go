// Package rights finds out what the user of a connection may do in elections,
// without doing it.
package rights

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Verb is what a right allows.
type Verb string

// The verbs.
const (
	Publish   Verb = "publish"
	Subscribe Verb = "subscribe"
)

// A Right is the permission to publish or subscribe to a subject.
type Right struct {
	Verb    Verb   `json:"verb"`
	Subject string `json:"subject"`

	stream string // what is published is stored in it, unless refused
}

// String formats the right like a server's denial.
func (r Right) String() string { return string(r.Verb) + " to " + r.Subject }

// Has finds out whether the user of the connection has the right. An error
// means that the server did not answer.
//
// The server checks a permission before it looks at a message, and denies on
// the connection. So what is published has no effect: a write on condition of a
// revision that no key ever has, or a request whose body is no JSON. Both are
// refused before anything is changed, and name no subject for an answer.
func Has(ctx context.Context, nc *nats.Conn, r Right) (bool, error) {
	before := nc.LastError()
	if r.Verb == Subscribe {
		sub, err := nc.SubscribeSync(r.Subject)
		if err != nil {
			return false, err
		}
		defer func() { _ = sub.Unsubscribe() }() // the connection ends soon
	} else if err := nc.PublishMsg(harmless(r)); err != nil {
		return false, err
	}
	// The denial precedes the answer to the ping.
	if err := nc.FlushWithContext(ctx); err != nil {
		return false, err
	}
	err := nc.LastError()
	//nolint:errorlint // the same value again is the report of an earlier denial, an equal text in another value is a new one
	return err == before || !denies(err, r.Subject), nil
}

// Impossible is a revision that no key ever has. Revisions are sequence numbers
// of a stream, and stay far below.
const Impossible uint64 = 1 << 62

// harmless is a message to the right's subject that has no effect, whichever
// subscriber receives it.
func harmless(r Right) *nats.Msg {
	msg := nats.NewMsg(r.Subject)
	if r.stream == "" {
		msg.Data = []byte("leader doctor")
		return msg
	}
	msg.Header.Set(jetstream.ExpectedStreamHeader, r.stream)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(Impossible, 10))
	return msg
}

// denies reports whether an error of a connection is a denial of the subject,
// which only its text contains.
func denies(err error, subject string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), strconv.Quote(subject))
}
