package rights

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Scope is a group of a bucket, and how it is reached.
type Scope struct {
	Bucket string
	Group  string
	// API is the prefix of the requests to JetStream, which ends in a dot.
	// Empty means $JS.API.
	API string
	// Republish is the prefix of the subjects on which the bucket republishes,
	// or empty if it does not.
	Republish string
	// Inbox is the prefix of the subjects on which the connection receives
	// replies.
	Inbox string
}

// A Role is what somebody is to do in elections. A lack of Needs shows at once,
// when the role is played. One of Helps may show only in an emergency, and is
// what an examination is for.
type Role struct {
	Name string
	// Of is what the role is played of; the group, if it is empty.
	Of string
	// Needs are the rights without which the role cannot be played, Helps those
	// without which it is played worse.
	Needs, Helps []Right
	// Lacks says what is worse without those of Helps.
	Lacks string
	// Untried are rights that cannot be tried without harm.
	Untried []Right
}

// api is the prefix of the requests to JetStream.
func (s Scope) api() string { return cmp.Or(s.API, jetstream.DefaultAPIPrefix) }

// InfoRight is the right to read how the bucket is configured.
func (s Scope) InfoRight() Right { return s.request("STREAM.INFO.KV_" + s.Bucket) }

// CreateRight is the right to make the bucket.
func (s Scope) CreateRight() Right { return s.request("STREAM.CREATE.KV_" + s.Bucket) }

// AccountRight is the right to ask what the account may do.
func (s Scope) AccountRight() Right { return s.request("INFO") }

// ListRight is the right to look through the streams of the account.
func (s Scope) ListRight() Right { return s.request("STREAM.LIST") }

// WriteRight is the right to write the record.
func (s Scope) WriteRight() Right { return s.write(s.Group) }

// request is the right to a request of JetStream's API. It has no stream: such
// a request changes nothing while its body is no JSON.
func (s Scope) request(subject string) Right { return Right{Verb: Publish, Subject: s.api() + subject} }

// control is the key of the group's control record.
func (s Scope) control() string { return "_ctl." + s.Group }

// write is the right to write a key. In a domain, or from another account, the
// write goes through the API, whose prefix leads there.
func (s Scope) write(key string) Right {
	subject := "$KV." + s.Bucket + "." + key
	if s.api() != jetstream.DefaultAPIPrefix {
		subject = s.api() + subject
	}
	return Right{Verb: Publish, Subject: subject, stream: "KV_" + s.Bucket}
}

// read is the right to read one key. A read of this kind names the key in its
// subject, so that a right can be for it alone.
func (s Scope) read(key string) Right {
	return s.request("DIRECT.GET.KV_" + s.Bucket + ".$KV." + s.Bucket + "." + key)
}

// watch is the right to hear of changes of a key: by subscription where the
// bucket republishes, and else by a consumer, whose making names what it
// filters.
func (s Scope) watch(key string) Right {
	if s.Republish != "" {
		return Right{Verb: Subscribe, Subject: s.Republish + key}
	}
	return s.request("CONSUMER.CREATE.KV_" + s.Bucket + ".leader-doctor.$KV." + s.Bucket + "." + key)
}

// inbox is the right to receive answers. Without it every request is in vain,
// and looks as if nobody answered.
func (s Scope) inbox() Right { return Right{Verb: Subscribe, Subject: s.Inbox + ".leader-doctor"} }

// Roles are those of docs/operations.md. A test there holds the rights against
// what elections need.
func (s Scope) Roles() []Role {
	observer := Role{
		Name: "observer", Needs: []Right{s.watch(s.Group)},
		Helps: []Right{s.read(s.Group), s.inbox(), s.InfoRight()}, Lacks: "learns the present state late",
	}
	if s.Republish == "" {
		observer.Needs = append(observer.Needs, s.inbox())
		observer.Helps = []Right{s.InfoRight()}
	}
	viewer := Role{
		Name: "viewer", Of: "every group", Needs: []Right{s.watch(">"), s.inbox()},
		Helps: []Right{s.InfoRight()}, Lacks: "the server logs a denial each time",
	}
	if s.Republish != "" { // a consumer brings the present state
		viewer.Needs = append(viewer.Needs, s.request("DIRECT.GET.KV_"+s.Bucket), s.read(s.Group))
	}
	return []Role{
		{
			Name: "candidate", Needs: []Right{s.write(s.Group), s.read(s.Group), s.read(s.control()), s.inbox()},
			Helps: []Right{s.InfoRight(), s.watch(s.Group), s.watch(s.control())},
			Lacks: "hears late, or cools down before it leads",
		},
		observer,
		viewer,
		{
			Name: "operator", Needs: []Right{s.write(s.control()), s.read(s.Group), s.read(s.control()), s.inbox()},
			Helps: []Right{s.InfoRight(), s.watch(s.Group)}, Lacks: "asks all the same, and may not see why a leader left",
		},
		{
			Name: "caretaker", Needs: []Right{s.write(s.Group), s.read(s.Group), s.read(s.control()), s.inbox()},
			Helps: []Right{s.InfoRight(), s.watch(s.Group)}, Lacks: "ends a record all the same, and may wait for its lease in vain",
		},
		{
			Name: "admin", Of: fmt.Sprintf("bucket %q", s.Bucket), Needs: []Right{s.CreateRight(), s.InfoRight(), s.request("STREAM.UPDATE.KV_" + s.Bucket), s.inbox()},
			// A request that must not delete, but for the right to, is one word
			// away from one that does.
			Untried: []Right{s.request("STREAM.DELETE.KV_" + s.Bucket)},
		},
	}
}

// A Tester tries rights, each once. A denial is logged by the server, which one
// line for each right is enough of.
type Tester struct {
	nc    *nats.Conn
	known map[Right]bool
}

// NewTester returns a Tester for the user of a connection on which nothing else
// is under way.
func NewTester(nc *nats.Conn) *Tester { return &Tester{nc: nc, known: make(map[Right]bool)} }

// Has is the function Has, with what is known already.
func (t *Tester) Has(ctx context.Context, r Right) (bool, error) {
	if has, ok := t.known[r]; ok {
		return has, nil
	}
	has, err := Has(ctx, t.nc, r)
	if err == nil {
		t.known[r] = has
	}
	return has, err
}

// Missing returns the rights that the user does not have. It tries all of them,
// also after one that is missing: whoever grants rights wants the list.
func (t *Tester) Missing(ctx context.Context, all []Right) ([]Right, error) {
	var failed error
	missing := slices.DeleteFunc(slices.Clone(all), func(r Right) bool {
		has, err := t.Has(ctx, r)
		if err != nil {
			failed = err
		}
		return has
	})
	return missing, failed
}
