package advisory

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// Prefix is the first word of all subjects.
const Prefix = "leader-advisory"

// Version is the version of the format: see [Advisory].
const Version = 1

// EventNote is the event of an advisory that contains a leader.Note instead of
// a transition.
const EventNote leader.Event = "note"

// ErrMalformed means that a message is not an advisory of this version.
var ErrMalformed = errors.New("advisory: malformed message")

// An Advisory is one message.
type Advisory struct {
	// Version of the format is 1. Fields may be added to it; whatever changes
	// the meaning of one gets another version.
	Version int `json:"version"`
	// ID is unique to the advisory.
	ID string `json:"id"`
	// Seq counts the advisories of one election of one process from 1. A
	// missing number was dropped, or lost on its way.
	Seq uint64 `json:"seq"`
	// Time is when it happened, by the clock of the instance.
	Time time.Time `json:"time"`
	// Bucket, Group and Instance identify the sending candidate.
	Bucket   string `json:"bucket,omitempty"`
	Group    string `json:"group"`
	Instance string `json:"instance"`
	// Event is one of the leader.Event constants, or EventNote.
	Event leader.Event `json:"event"`

	// From and To are the states of a transition, Reason why it happened, By
	// and Why who asked for it and for what reason, if somebody did.
	From   string        `json:"from,omitempty"`
	To     string        `json:"to,omitempty"`
	Reason leader.Reason `json:"reason,omitempty"`
	By     string        `json:"by,omitempty"`
	Why    string        `json:"why,omitempty"`
	// Term is the number of the instance's own term that began or ended, if one
	// did.
	Term uint64 `json:"term,omitempty"`
	// Leader is who leads now as far as the instance knows, LeaderTerm in which
	// term; without a leader it is the last term.
	Leader     string `json:"leader,omitempty"`
	LeaderTerm uint64 `json:"leader_term,omitempty"`
	// Correlation is the same in all reports about one term, by any instance,
	// also in logs and traces.
	Correlation string `json:"correlation,omitempty"`

	// Note, Call and Text come from a leader.Note: its kind, the kind of write
	// that it is about, and a sentence.
	Note string `json:"note,omitempty"`
	Call string `json:"call,omitempty"`
	Text string `json:"text,omitempty"`
}

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 2020-12) of the messages.
func Schema() string { return schema }

// maxMessage is more than any advisory has; maxText cuts the text of a note,
// such as the stack of a panic.
const (
	maxMessage = 64 << 10
	maxText    = 4 << 10
)

// maxTerm is above all terms, which records state as JSON numbers.
const maxTerm = 1 << 53

// DecodeOn reads a message that arrived on a subject. A message is malformed if
// its bucket, event or group differs from the subject's. Rights to publish are
// granted by subject, so a reader that ignored the subject would let a candidate
// of one group report on another. If an import renames the subject, it is not
// compared, except where the import only adds a prefix. Errors match
// ErrMalformed.
func DecodeOn(subject string, data []byte) (Advisory, error) {
	a, err := Decode(data)
	if err != nil {
		return Advisory{}, err
	}
	if own := ownPart(subject); own != "" && own != a.subject() {
		return Advisory{}, fmt.Errorf("%w: event %q of group %q in bucket %q does not match its subject %q", ErrMalformed, a.Event, a.Group, a.Bucket, subject)
	}
	return a, nil
}

// ownPart returns the subject without the prefix that an import added, or "" if
// it contains no subject of this package.
func ownPart(subject string) string {
	const first = Prefix + "."
	if strings.HasPrefix(subject, first) {
		return subject
	}
	_, rest, found := strings.Cut(subject, "."+first)
	if !found {
		return ""
	}
	return first + rest
}

// Decode reads a message, wherever it came from. Readers of messages use
// [DecodeOn]. Errors match ErrMalformed.
func Decode(data []byte) (Advisory, error) {
	var a Advisory
	if len(data) > maxMessage {
		return a, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return Advisory{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch {
	case a.Version != Version:
		return Advisory{}, fmt.Errorf("%w: version %d, not %d", ErrMalformed, a.Version, Version)
	case a.Group == "", a.Instance == "", a.Event == "":
		return Advisory{}, fmt.Errorf("%w: without group, instance or event", ErrMalformed)
	case a.Time.UTC().Year() < 0 || a.Time.UTC().Year() > 9999:
		return Advisory{}, fmt.Errorf("%w: time %v: must be of the years 0 to 9999 in UTC", ErrMalformed, a.Time)
	case a.Term > maxTerm, a.LeaderTerm > maxTerm:
		return Advisory{}, fmt.Errorf("%w: term %d, leader_term %d: must be at most 2^53", ErrMalformed, a.Term, a.LeaderTerm)
	}
	return a, nil
}

// noBucket replaces the bucket of elections without one, on stores other than
// NATS.
const noBucket = "_"

// Subject returns the subject of a group's advisories. Each part may also be a
// wildcard: * for one bucket or event, > for all groups, and both within a
// group's name, as in "jobs.*".
func Subject(bucket string, event leader.Event, group string) string {
	if bucket == "" {
		bucket = noBucket
	}
	return strings.Join([]string{Prefix, bucket, string(event), group}, ".")
}

func (a Advisory) subject() string { return Subject(a.Bucket, a.Event, a.Group) }

func ofTransition(t leader.Transition) Advisory {
	return Advisory{
		Time: t.At.UTC(), Event: t.Event, From: t.From, To: t.To, Reason: t.Reason, By: t.By, Why: t.Why,
		Term: t.Term.Number, Leader: t.LeaderID, LeaderTerm: t.LeaderTerm, Correlation: t.Correlation,
	}
}

func ofNote(n leader.Note) Advisory {
	return Advisory{
		Time: n.At.UTC(), Event: EventNote, Note: n.Kind, Call: n.Call, Text: strings.ToValidUTF8(n.Text[:min(len(n.Text), maxText)], ""),
		Correlation: n.Correlation,
	}
}
