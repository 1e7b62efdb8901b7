package wire

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Names are the subjects of one bucket.
type Names struct {
	// Bucket is the bucket's name, and Stream the name of the stream behind it.
	Bucket, Stream string
	// API is the prefix of JetStream requests: $JS.API. or what replaces it.
	API string
	// Stored is the prefix of the subjects under which records are stored, and
	// Put the prefix of the subjects to which they are published.
	Stored, Put string
}

// NewNames returns the names of a bucket that is reached by the prefix api,
// which ends in a dot.
func NewNames(bucket, api string) Names {
	n := Names{Bucket: bucket, Stream: "KV_" + bucket, API: api, Stored: "$KV." + bucket + "."}
	n.Put = n.Stored
	if api != jetstream.DefaultAPIPrefix {
		// Across the border of a domain or an account, records travel under the
		// prefix of the API (nats.go, jetstream/kv.go, useJSPfx).
		n.Put = api + n.Stored
	}
	return n
}

// Direct is the subject of a direct get of one key.
func (n Names) Direct(key string) string { return n.DirectMany() + "." + n.Stored + key }

// DirectMany is the subject of a direct get of several keys.
func (n Names) DirectMany() string { return n.API + "DIRECT.GET." + n.Stream }

// MessageGet is the subject of STREAM.MSG.GET, for buckets without direct gets.
func (n Names) MessageGet() string { return n.API + "STREAM.MSG.GET." + n.Stream }

// Info is the subject that asks for the stream's configuration and state.
func (n Names) Info() string { return n.API + "STREAM.INFO." + n.Stream }

// Create is the subject that makes the stream.
func (n Names) Create() string { return n.API + "STREAM.CREATE." + n.Stream }

// Consumers is the beginning of the subjects that make consumers.
func (n Names) Consumers() string { return n.API + "CONSUMER.CREATE." + n.Stream + "." }

// Consumer is the subject that makes a consumer of the keys that match the
// filter, under AnyName.
func (n Names) Consumer(filter string) string {
	return n.Consumers() + AnyName + "." + n.Stored + filter
}

// AnyName is a consumer's name that shows whether the user may make a consumer:
// users have rights to all names.
const AnyName = "leader"

// Republished returns the prefix under which rp republishes the bucket's
// records, or "" if it does not republish them whole and under their key.
func (n Names) Republished(rp *jetstream.RePublish) string {
	if rp == nil || rp.HeadersOnly {
		return ""
	}
	source, all := strings.CutSuffix(rp.Source, ">")
	if rp.Source == "" {
		source, all = "", true
	}
	to, plain := strings.CutSuffix(rp.Destination, ">")
	if !all || !plain || to == "" || strings.ContainsAny(source+to, "*{") || !strings.HasPrefix(n.Stored, source) {
		return ""
	}
	return to + strings.TrimPrefix(n.Stored, source)
}

// An Act is what a user may be denied to do with a subject, in the words of a
// server's permission violations.
type Act string

// The acts.
const (
	Publish   Act = "Publish"
	Subscribe Act = "Subscription"
)

// Violation returns err if it is a permission violation that denies the act on
// one of the subjects, or, for one that ends in a dot, on a subject that begins
// so.
//
// The text of the error is the only place where the server names the two. The
// act matters, since the whole program uses the connection: it may subscribe to
// what we publish to, or answer requests whose inboxes begin as ours.
func Violation(err error, act Act, subjects ...string) error {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	text := err.Error()
	for _, subject := range subjects {
		quoted := strconv.Quote(subject)
		if strings.HasSuffix(subject, ".") {
			quoted = strings.TrimSuffix(quoted, `"`)
		}
		if strings.Contains(text, string(act)+" to "+quoted) {
			return err
		}
	}
	return nil
}

// ConsumerViolation returns err if it denies the making of a consumer of the
// keys that match the filter, whatever the consumer is called.
func (n Names) ConsumerViolation(err error, filter string) error {
	if Violation(err, Publish, n.Consumers()) == nil {
		return nil
	}
	_, named, _ := strings.Cut(err.Error(), n.Consumers())
	_, filtered, _ := strings.Cut(named, ".") // no name has a dot
	if !strings.HasPrefix(filtered, strings.TrimPrefix(strconv.Quote(n.Stored+filter), `"`)) {
		return nil
	}
	return err
}
