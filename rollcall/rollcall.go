package rollcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
)

// Prefix is the first word of the subjects on which groups are asked, and the
// last of those on which they answer.
const Prefix = "leader-rollcall"

// Format is the version of the answers: see [Candidate].
const Format = 1

// Subject returns the subject on which the candidates of a group are asked.
func Subject(bucket, group string) string { return Prefix + "." + bucket + "." + group }

// A Candidate is the answer of one candidate, as JSON. It never holds a token.
type Candidate struct {
	// Format of the answer is 1. Fields may be added to it; whatever changes
	// the meaning of one gets another.
	Format int `json:"format"`
	// Bucket, Group and Instance identify the answering candidate.
	Bucket   string `json:"bucket"`
	Group    string `json:"group"`
	Instance string `json:"instance"`
	// State is one of the leader.State constants, Since when it last changed,
	// by the candidate's clock, and Reason why.
	State  string        `json:"state"`
	Since  time.Time     `json:"since,omitzero"`
	Reason leader.Reason `json:"reason,omitempty"`
	// Leader is who leads as far as the candidate knows, and Term that leader's
	// term.
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term,omitempty"`
	// TrustLeft is for how many milliseconds the leader's lease is good yet, as
	// the candidate sees it: a leader's own trust window, or when a follower
	// would challenge it. Without a leader it is 0.
	TrustLeft int64 `json:"trust_left_ms"`
	// Lag is the age in milliseconds of the latest renewal that the candidate
	// has sent or heard of, if the leader's TTL is the candidate's, as it
	// should be. Without a leader it is 0.
	Lag int64 `json:"lag_ms"`
	// Priority, Version and Address come from the candidate's configuration.
	Priority int    `json:"priority,omitempty"`
	Version  string `json:"version,omitempty"`
	Address  string `json:"address,omitempty"`
	// Barred is why the candidate does not campaign at present, such as
	// leader.ReasonUnhealthy or leader.ReasonDrained; empty if nothing keeps it.
	Barred leader.Reason `json:"barred,omitempty"`
	// Connection is that to the store: CONNECTED, DISCONNECTED or CLOSED.
	Connection string `json:"connection"`
	// Error is the latest error of a call to the store, if none has succeeded
	// since.
	Error string `json:"error,omitempty"`
}

// ErrMalformed means that an answer does not have this format.
var ErrMalformed = errors.New("rollcall: malformed answer")

// The longest answer, of which maxText at most is an error's.
const (
	maxAnswer = 16 << 10
	maxText   = 512
)

// The bounds of an answer: the largest term of a record, and the longest time in
// milliseconds.
const (
	maxTerm   = 1 << 53
	maxMillis = int64(365 * 24 * time.Hour / time.Millisecond)
)

func (c *Candidate) valid() bool {
	within := func(ms int64) bool { return ms >= 0 && ms <= maxMillis }
	year := c.Since.UTC().Year()
	return c.Term <= maxTerm && within(c.TrustLeft) && within(c.Lag) && year >= 0 && year <= 9999
}

// decode reads an answer to a question about a group.
func decode(m *nats.Msg, bucket, group string) (Candidate, error) {
	var c Candidate
	if len(m.Data) > maxAnswer {
		return c, fmt.Errorf("%w: %d bytes", ErrMalformed, len(m.Data))
	}
	if err := json.Unmarshal(m.Data, &c); err != nil {
		return Candidate{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch {
	case c.Format != Format:
		return Candidate{}, fmt.Errorf("%w: format %d, not %d", ErrMalformed, c.Format, Format)
	case c.Bucket != bucket, c.Group != group, c.Instance == "":
		return Candidate{}, fmt.Errorf("%w: not of a candidate of group %q in bucket %q", ErrMalformed, group, bucket)
	case !c.valid():
		return Candidate{}, fmt.Errorf("%w: term %d, trust_left_ms %d, lag_ms %d, since %v: no candidate answers so", ErrMalformed, c.Term, c.TrustLeft, c.Lag, c.Since)
	}
	return c, nil
}

// forAnswers reports whether a subject was made for answers, as those that Ask
// makes are. Those of records, of the JetStream API and of whatever else a
// candidate may publish are not, under whatever prefix they are imported.
func forAnswers(subject string) bool {
	parts := strings.Split(subject, ".")
	for _, part := range parts {
		if part == "" || part[0] == '$' {
			return false
		}
	}
	return len(parts) > 1 && parts[len(parts)-1] == Prefix && parts[0] != Prefix
}
