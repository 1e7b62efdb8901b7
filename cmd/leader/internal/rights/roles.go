package rights

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/inspect"
)

// A Scope is a group of a bucket, and how it is reached.
type Scope struct {
	Bucket string
	Group  string
	// Instance is the InstanceID of the candidate. If it is empty, the rights to
	// drains are tried under a made-up one.
	Instance string
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

// A Role is a person's or program's task in elections. A lack of Needs shows
// immediately, when the role is played. A lack of Helps may show only in an
// emergency, and an examination has to find it.
type Role struct {
	Name string
	// Of is what the role is played of; the group, if it is empty.
	Of string
	// Needs are the rights without which the role cannot be played, Helps those
	// without which it is played worse.
	Needs, Helps []Right
	// Lacks describes what is worse without the rights in Helps.
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

// drain is the key at which operators drain the instance.
func (s Scope) drain() string { return inspect.DrainKey(cmp.Or(s.Instance, "leader-doctor")) }

// drains are the rights to drains that candidates and operators have in common.
func (s Scope) drains() []Right { return []Right{s.read(s.drain()), s.write(s.drain())} }

// anyInstance is the remedy, for a message, of rights that were tried under a
// made-up InstanceID. Rights to the keys of certain instances are not found.
func (s Scope) anyInstance() string {
	if s.Instance != "" {
		return ""
	}
	return " (rights to one InstanceID: --instance)"
}

// ran is the key at which leader run --once notes the group's last run.
func (s Scope) ran() string { return "_ctl._ran." + s.Group }

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

// inbox is the right to receive answers. Without it every request fails, and
// looks as if nobody answered.
func (s Scope) inbox() Right { return Right{Verb: Subscribe, Subject: s.Inbox + ".leader-doctor"} }

// Roles are the roles of docs/operate/permissions.md. A test there compares the
// rights with what elections need.
func (s Scope) Roles() []Role {
	observer := Role{
		Name: "observer", Needs: []Right{s.watch(s.Group)},
		Helps: []Right{s.read(s.Group), s.inbox(), s.InfoRight()}, Lacks: "learns the current state late",
	}
	if s.Republish == "" {
		observer.Needs = append(observer.Needs, s.inbox())
		observer.Helps = []Right{s.InfoRight()}
	}
	viewer := Role{
		Name: "viewer", Of: "every group", Needs: []Right{s.watch(">"), s.inbox()},
		Helps: []Right{s.InfoRight()}, Lacks: "the server logs a denial each time",
	}
	if s.Republish != "" { // a consumer delivers the current state
		viewer.Needs = append(viewer.Needs, s.request("DIRECT.GET.KV_"+s.Bucket), s.read(s.Group))
	}
	candidate := Role{
		Name: "candidate", Needs: []Right{s.write(s.Group), s.read(s.Group), s.read(s.control()), s.inbox()},
		Helps: append([]Right{s.InfoRight(), s.watch(s.Group), s.watch(s.control())}, s.drains()...),
		Lacks: "hears late, cools down before it leads, or cannot be drained" + s.anyInstance(),
	}
	if s.Republish != "" { // elsewhere the key is read, not watched
		candidate.Helps = append(candidate.Helps, s.watch(s.drain()))
	}
	operator := Role{
		Name: "operator", Needs: []Right{s.write(s.control()), s.read(s.Group), s.read(s.control()), s.inbox()},
		Helps: append([]Right{s.InfoRight(), s.watch(s.Group)}, s.drains()...),
		Lacks: "asks all the same and may not see why a leader left, or cannot drain" + s.anyInstance(),
	}
	scheduler := candidate
	scheduler.Name = "scheduler"
	scheduler.Needs = append(slices.Clone(candidate.Needs), s.write(s.control()), s.write(s.ran()), s.read(s.ran()))
	scheduler.Helps = append(slices.Clone(candidate.Helps), s.watch(s.ran()))
	return []Role{
		candidate,
		scheduler,
		observer,
		viewer,
		operator,
		{
			Name: "caretaker", Needs: []Right{s.write(s.Group), s.read(s.Group), s.read(s.control()), s.inbox()},
			Helps: []Right{s.InfoRight(), s.watch(s.Group)}, Lacks: "ends a record all the same, and may wait for its lease without success",
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
// also after a missing right: an administrator wants the whole list.
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
