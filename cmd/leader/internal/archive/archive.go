// Package archive keeps the advisories of a bucket's elections in a stream, and
// reads who led when out of it.
package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/store"
)

// ErrNone means that no stream keeps the advisories of the bucket.
var ErrNone = errors.New("no stream keeps a history")

// ErrNoRoom means that the account, or the server, has less room than was
// requested.
var ErrNoRoom = errors.New("there is not so much room")

// noRoom are the server's errors for that: of the account, of the server's files,
// and of one stream.
func noRoom(code jetstream.ErrorCode) bool { return code == 10002 || code == 10047 || code == 10122 }

// Name is the name of the stream that Enable makes.
func Name(bucket string) string { return "LEADER_HISTORY_" + bucket }

// Limits are how much a stream keeps, the oldest going first.
type Limits struct {
	Age   time.Duration
	Bytes int64
}

// duplicates is for how long the server knows an advisory that is sent twice.
const duplicates = 2 * time.Minute

// Enable makes the stream, with as many replicas as the bucket has. If a stream
// keeps these advisories already it is left as it is: made is false then. The
// name is the stream's.
func Enable(ctx context.Context, js jetstream.JetStream, bucket string, limits Limits) (name string, made bool, err error) {
	name, err = Find(ctx, js, bucket)
	if err == nil || !errors.Is(err, ErrNone) {
		return name, false, err
	}
	replicas, err := replicasOf(ctx, js, bucket)
	if err != nil {
		return "", false, err
	}
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: Name(bucket), Description: "Who led which group of bucket " + bucket + " when, and why that changed",
		Subjects:   []string{advisory.Subject(bucket, "*", ">")},
		Replicas:   replicas,
		MaxAge:     limits.Age,
		MaxBytes:   limits.Bytes,
		MaxMsgSize: 64 << 10, Discard: jetstream.DiscardOld, Duplicates: min(duplicates, limits.Age), DenyDelete: true,
	})
	if err != nil {
		return "", false, refused("making the stream", err)
	}
	return s.CachedInfo().Config.Name, true, nil
}

// Disable deletes the stream that Enable made, with the history. A stream of
// another name was made by somebody for more than this.
func Disable(ctx context.Context, js jetstream.JetStream, bucket string) error {
	err := js.DeleteStream(ctx, Name(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%w: stream %s", ErrNone, Name(bucket))
	}
	return refused("deleting the stream", err)
}

// Find returns the name of the stream that keeps the bucket's advisories.
func Find(ctx context.Context, js jetstream.JetStream, bucket string) (string, error) {
	name, err := js.StreamNameBySubject(ctx, advisory.Subject(bucket, leader.EventPromoted, ">"))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", fmt.Errorf("%w of bucket %q", ErrNone, bucket)
	}
	return name, refused("looking for the stream", err)
}

func replicasOf(ctx context.Context, js jetstream.JetStream, bucket string) (int, error) {
	s, err := js.Stream(ctx, "KV_"+bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, fmt.Errorf("%w: bucket %q does not exist: leader bucket create %s makes it", store.ErrPermanent, bucket, bucket)
	}
	if err != nil {
		return 0, refused("bucket "+strconv.Quote(bucket), err)
	}
	return s.CachedInfo().Config.Replicas, nil
}

// refused makes the server's own refusals permanent: they stay until somebody
// changes something.
func refused(what string, err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%s: %w: there is none", what, store.ErrPermanent)
	case errors.As(err, &api) && noRoom(api.ErrorCode):
		return fmt.Errorf("%s: %w: %w: %w", what, store.ErrPermanent, ErrNoRoom, err)
	case errors.As(err, &api) && api.Code < 500:
		return fmt.Errorf("%s: %w: %w", what, store.ErrPermanent, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// A History is what a stream kept of some groups.
type History struct {
	Stream     string
	Advisories []advisory.Advisory // in the order of their arrival
	// Complete is when the stream was made or, if it has dropped the oldest
	// since, the time of its oldest message, and of the last that it had if
	// none is left. It knows nothing of the time before.
	Complete time.Time
	// Malformed counts the messages that are not advisories.
	Malformed int
}

// Read returns the history of a group.
func Read(ctx context.Context, js jetstream.JetStream, bucket, group string) (History, error) {
	return read(ctx, js, bucket, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubjects: []string{advisory.Subject(bucket, "*", group)},
	})
}

// Latest returns the latest promotion and demotion of each group that the
// pattern matches.
func Latest(ctx context.Context, js jetstream.JetStream, bucket, pattern string) (History, error) {
	return read(ctx, js, bucket, latest(bucket, pattern))
}

// Recent returns what candidates published about terms since a time, of all
// groups, and also the latest promotion and demotion of each group, however
// old. In a stream with more messages than most, including messages of other
// buckets, it reads the last ones, and Complete is accordingly later.
func Recent(ctx context.Context, js jetstream.JetStream, bucket string, since time.Time, most uint64) (History, error) {
	s, h, err := open(ctx, js, bucket)
	if err != nil {
		return h, err
	}
	// A single filter covers all events, not one for each that is wanted.
	// nats-server (2.15.2) has a fault with several filters and a start time:
	// it starts such a consumer at the first message that any filter ever had,
	// if that is later, and leaves out the earlier messages of the others.
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since}
	state := s.CachedInfo().State
	cut := state.Msgs > most
	if cut {
		cfg = jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: state.LastSeq - most + 1}
	}
	cfg.FilterSubjects = []string{advisory.Subject(bucket, "*", ">")}
	if h, err = h.add(ctx, s, cfg); err != nil {
		return h, err
	}
	h.Advisories = slices.DeleteFunc(h.Advisories, func(a advisory.Advisory) bool { return !ofTerms(a.Event) })
	if cut {
		first, err := storedAt(ctx, s, cfg.OptStartSeq)
		if err != nil {
			return h, err
		}
		if first.IsZero() {
			first = state.LastTime // it was emptied meanwhile
		}
		since = later(since, first)
	}
	h.Complete = later(h.Complete, since)
	return h.add(ctx, s, latest(bucket, ">"))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// storedAt returns when the server stored the message with a sequence number,
// or the first that is left after it; zero if there is none. It asks a consumer,
// of whatever subject, since a reader need not have the right to get a message.
func storedAt(ctx context.Context, s jetstream.Stream, seq uint64) (time.Time, error) {
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq, HeadersOnly: true,
	})
	if err != nil {
		return time.Time{}, refused("reading stream "+s.CachedInfo().Config.Name, err)
	}
	info, err := c.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return time.Time{}, err
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return time.Time{}, err
	}
	defer messages.Stop()
	m, err := messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		return time.Time{}, err
	}
	meta, err := m.Metadata()
	if err != nil {
		return time.Time{}, err
	}
	return meta.Timestamp, nil
}

// ofTerms reports whether an event is about who leads.
func ofTerms(e leader.Event) bool {
	switch e {
	case leader.EventPromoted, leader.EventDemoted, leader.EventFollowing, leader.EventCampaigning:
		return true
	default:
		return false
	}
}

// latest selects the latest promotion and demotion of each group.
func latest(bucket, pattern string) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		FilterSubjects: []string{
			advisory.Subject(bucket, leader.EventPromoted, pattern), advisory.Subject(bucket, leader.EventDemoted, pattern),
		},
	}
}

func read(ctx context.Context, js jetstream.JetStream, bucket string, cfg jetstream.OrderedConsumerConfig) (History, error) {
	s, h, err := open(ctx, js, bucket)
	if err != nil {
		return h, err
	}
	return h.add(ctx, s, cfg)
}

// open returns the stream that keeps the bucket's advisories, and a history of
// which nothing has been read.
func open(ctx context.Context, js jetstream.JetStream, bucket string) (jetstream.Stream, History, error) {
	name, err := Find(ctx, js, bucket)
	if err != nil {
		return nil, History{}, err
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, History{}, refused("stream "+name, err)
	}
	return s, History{Stream: name, Complete: completeSince(s.CachedInfo())}, nil
}

// add returns the history with what a consumer is given.
func (h History) add(ctx context.Context, s jetstream.Stream, cfg jetstream.OrderedConsumerConfig) (History, error) {
	c, err := s.OrderedConsumer(ctx, cfg)
	if err != nil {
		return h, refused("reading stream "+h.Stream, err)
	}
	all, malformed, err := pending(ctx, c)
	h.Advisories, h.Malformed = append(h.Advisories, all...), h.Malformed+malformed
	return h, err
}

// completeSince: whatever was dropped for its age or for room was older than
// what is left. Where nothing is left, it was not younger than the last message
// that was there, whose time the server keeps. If it does not, only what comes
// from now on is known to be complete.
func completeSince(info *jetstream.StreamInfo) time.Time {
	switch state := info.State; {
	case state.FirstSeq <= 1:
		return info.Created
	case !state.FirstTime.IsZero():
		return state.FirstTime
	case !state.LastTime.IsZero():
		return state.LastTime
	default:
		return info.TimeStamp
	}
}

// pending returns the advisories that are there now, and how many messages are
// none.
func pending(ctx context.Context, c jetstream.Consumer) (all []advisory.Advisory, malformed int, err error) {
	info, err := c.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return nil, 0, err
	}
	messages, err := c.Messages()
	if err != nil {
		return nil, 0, err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return all, malformed, err
		}
		if a, err := advisory.DecodeOn(m.Subject(), m.Data()); err == nil {
			all = append(all, a)
		} else {
			malformed++
		}
		meta, err := m.Metadata()
		if err != nil || meta.NumPending == 0 {
			return all, malformed, err
		}
	}
}

// Terms returns who led when.
func (h History) Terms() []advisory.Term {
	return advisory.Terms(slices.Values(h.Advisories))
}

// Missing returns how many advisories the candidates sent that the stream does
// not have, between others of the same candidate that it has.
func (h History) Missing() (missing uint64) {
	type span struct{ first, last, n uint64 }
	runs := make(map[string]span)
	for _, a := range h.Advisories {
		run, _, _ := strings.Cut(a.ID, "-")
		s, known := runs[run]
		if !known {
			s = span{first: a.Seq, last: a.Seq}
		}
		s.first, s.last, s.n = min(s.first, a.Seq), max(s.last, a.Seq), s.n+1
		runs[run] = s
	}
	for _, s := range runs {
		if have := s.last - s.first + 1; have > s.n {
			missing += have - s.n
		}
	}
	return missing
}
