package archive

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

const bucket = "leaders"

// A shelf is a stream with advisories.
type shelf struct {
	t    *testing.T
	ctx  context.Context
	js   jetstream.JetStream
	made time.Time
	told time.Time // by the candidates' clock
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	_, js := devtest.Connect(t, devtest.Serve(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	name, _, err := Enable(ctx, js, bucket, Limits{Age: time.Hour, Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	made := s.CachedInfo().Created
	return &shelf{t, ctx, js, made, made}
}

// tell puts an advisory of a term on the shelf, and returns when the server
// stored it.
func (s *shelf) tell(group string, event leader.Event, term uint64) (stored time.Time) {
	s.t.Helper()
	s.told = s.told.Add(time.Second)
	data, err := json.Marshal(advisory.Advisory{
		Version: advisory.Version, Bucket: bucket, Group: group, Instance: "a", Event: event, Term: term, Time: s.told,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ack, err := s.js.Publish(s.ctx, advisory.Subject(bucket, event, group), data)
	if err != nil {
		s.t.Fatal(err)
	}
	stream, err := s.js.Stream(s.ctx, ack.Stream)
	if err != nil {
		s.t.Fatal(err)
	}
	msg, err := stream.GetMsg(s.ctx, ack.Sequence)
	if err != nil {
		s.t.Fatal(err)
	}
	return msg.Time
}

// recent returns what Recent does, each advisory as group, event and term.
func (s *shelf) recent(since time.Time, most uint64) (h History, read []string) {
	s.t.Helper()
	h, err := Recent(s.ctx, s.js, bucket, since, most)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, a := range h.Advisories {
		read = append(read, a.Group+" "+string(a.Event)+" "+strconv.FormatUint(a.Term, 10))
	}
	return h, read
}

func TestRecentReadsAdvisoriesSinceAndTheLatestTermOfEachGroup(t *testing.T) {
	s := newShelf(t)
	s.tell("quiet", leader.EventPromoted, 1)
	s.tell("quiet", leader.EventDemoted, 1)
	s.tell("quiet", leader.EventFollowing, 0)
	s.tell("quiet", leader.EventPromoted, 2)
	since := s.tell("busy", leader.EventPromoted, 3).Add(1)
	s.tell("busy", advisory.EventNote, 0)
	s.tell("busy", leader.EventDemoted, 3)
	s.tell("busy", leader.EventCampaigning, 0)
	s.tell("busy", leader.EventPromoted, 4)
	s.tell("busy", leader.EventFollowing, 0)
	h, read := s.recent(since, 100)
	want := []string{
		"busy demoted 3", "busy campaigning 0", "busy promoted 4", "busy following 0",
		// The latest of each group: what began before and lasts is on the page,
		// too.
		"quiet demoted 1", "quiet promoted 2", "busy demoted 3", "busy promoted 4",
	}
	if !slices.Equal(read, want) {
		t.Errorf("read %q, want %q", read, want)
	}
	if !h.Complete.Equal(since) || h.Stream != Name(bucket) || h.Malformed != 0 {
		t.Errorf("complete since %v, want %v: %+v", h.Complete, since, h)
	}
}

func TestRecentKnowsNothingOfBeforeItsStream(t *testing.T) {
	s := newShelf(t)
	s.tell("jobs", leader.EventPromoted, 1)
	if h, _ := s.recent(s.made.Add(-time.Hour), 100); !h.Complete.Equal(s.made) {
		t.Errorf("complete since %v; the stream was made at %v", h.Complete, s.made)
	}
}

// A stream from which all was purged, or has expired, has no first message. It
// knows nothing of what it had.
func TestAnEmptiedStreamKnowsNothingOfBeforeItsLastMessage(t *testing.T) {
	s := newShelf(t)
	s.tell("jobs", leader.EventPromoted, 1)
	last := s.tell("jobs", leader.EventDemoted, 1)
	stream, err := s.js.Stream(s.ctx, Name(bucket))
	if err == nil {
		err = stream.Purge(s.ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if h, err := Read(s.ctx, s.js, bucket, "jobs"); err != nil || !h.Complete.Equal(last) || len(h.Advisories) > 0 {
		t.Errorf("complete since %v, want %v: %+v, %v", h.Complete, last, h, err)
	}
	next := s.tell("jobs", leader.EventPromoted, 2)
	s.tell("jobs", leader.EventDemoted, 2)
	if h, err := Read(s.ctx, s.js, bucket, "jobs"); err != nil || !h.Complete.Equal(next) {
		t.Errorf("complete since %v, want %v, %v", h.Complete, next, err)
	}
	// A stream without the time of its last message knows what comes now.
	now := time.Now()
	if got := completeSince(&jetstream.StreamInfo{Created: s.made, TimeStamp: now, State: jetstream.StreamState{FirstSeq: 3, LastSeq: 2}}); !got.Equal(now) {
		t.Errorf("complete since %v, want %v", got, now)
	}
}

func TestRecentReadsTheEndOfALongStream(t *testing.T) {
	s := newShelf(t)
	var stored []time.Time
	for term := range uint64(6) {
		stored = append(stored, s.tell("jobs", leader.EventPromoted, term))
	}
	since := s.made.Add(1)
	// The latest promotion comes twice: once among the recent advisories, once
	// as the group's latest.
	_, all := s.recent(since, 6)
	if want := []string{"jobs promoted 0", "jobs promoted 1", "jobs promoted 2", "jobs promoted 3", "jobs promoted 4", "jobs promoted 5", "jobs promoted 5"}; !slices.Equal(all, want) {
		t.Errorf("a stream that is not too long: %q", all)
	}
	h, last := s.recent(since, 2)
	if want := []string{"jobs promoted 4", "jobs promoted 5", "jobs promoted 5"}; !slices.Equal(last, want) {
		t.Errorf("a stream that is too long: %q", last)
	}
	if want := stored[4]; !h.Complete.Equal(want) {
		t.Errorf("complete since %v, want %v, when the first that was read was stored", h.Complete, want)
	}
}

// A stream may keep the advisories of several buckets, and its last messages
// may all belong to other buckets.
func TestRecentKnowsNothingOfWhatItPassedOverInASharedStream(t *testing.T) {
	s := newShelf(t)
	if err := s.js.DeleteStream(s.ctx, Name(bucket)); err != nil {
		t.Fatal(err)
	}
	stream, err := s.js.CreateStream(s.ctx, jetstream.StreamConfig{Name: "ALL", Subjects: []string{advisory.Prefix + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	var stored []time.Time
	for term := range uint64(5) {
		stored = append(stored, s.tell("jobs", leader.EventPromoted, term))
	}
	for range 10 {
		ack, err := s.js.Publish(s.ctx, advisory.Subject("other", leader.EventPromoted, "jobs"), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		msg, err := stream.GetMsg(s.ctx, ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, msg.Time)
	}
	for most, want := range map[uint64]time.Time{10: stored[5], 3: stored[12], 11: stored[4], 14: stored[1], 15: stream.CachedInfo().Created} {
		h, read := s.recent(s.made.Add(-time.Hour), most)
		if !h.Complete.Equal(want) || read[len(read)-1] != "jobs promoted 4" || h.Malformed != 0 {
			t.Errorf("of the last %d: complete since %v, want %v: %q", most, h.Complete, want, read)
		}
	}
	// They may reach back for longer than is asked for.
	if h, _ := s.recent(stored[7].Add(1), 10); !h.Complete.Equal(stored[7].Add(1)) {
		t.Errorf("complete since %v, want %v", h.Complete, stored[7].Add(1))
	}
}

// Rights to publish are granted by subject, so a message for another group than
// its subject's must not enter that group's history.
func TestHistoryOfAGroupUsesItsSubjectAlone(t *testing.T) {
	s := newShelf(t)
	s.tell("mine", leader.EventPromoted, 1)
	data, err := json.Marshal(advisory.Advisory{
		Version: advisory.Version, Bucket: bucket, Group: "theirs", Instance: "b", Event: leader.EventPromoted, Term: 9, Time: s.told,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.js.Publish(s.ctx, advisory.Subject(bucket, leader.EventPromoted, "mine"), data); err != nil {
		t.Fatal(err)
	}
	h, err := Read(s.ctx, s.js, bucket, "mine")
	if err != nil || len(h.Advisories) != 1 || h.Malformed != 1 || h.Advisories[0].Group != "mine" {
		t.Errorf("%+v, %v", h, err)
	}
}
