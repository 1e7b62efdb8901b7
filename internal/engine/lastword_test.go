package engine

import (
	"errors"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// The end of the election cuts calls off, and a count of failures is to show
// what failed.
func TestCallInterruptedByTheEndIsNotAFailure(t *testing.T) {
	released := machine.Seen{Kind: machine.Vacant, Rec: machine.Record{Token: "ours"}}
	theirs := machine.Seen{Kind: machine.Vacant, Rec: machine.Record{Token: "theirs"}}
	others := machine.Seen{Kind: machine.Held, Rec: machine.Record{Token: "theirs"}}
	undecided := new(record.Draft)
	for name, c := range map[string]struct {
		kind     string
		outcome  store.Outcome
		view     machine.Seen
		draft    *record.Draft
		reported bool
		as       store.Outcome
	}{
		"a release that was seen":             {"release", store.Unknown, released, nil, true, store.OK},
		"a release that was overtaken":        {"release", store.Unknown, others, nil, false, store.Unknown},
		"a release of which nothing is known": {"release", store.Unknown, others, undecided, true, store.Unknown},
		"a release before another's":          {"release", store.Unknown, theirs, nil, false, store.Unknown},
		"a release that was answered":         {"release", store.Conflict, others, nil, true, store.Conflict},
		"a renewal that was overtaken":        {"renew", store.Unknown, released, nil, false, store.Unknown},
		"a renewal that cannot be sent":       {"renew", store.Permanent, others, undecided, true, store.Permanent},
		"a read":                              {"read", store.Transient, others, undecided, false, store.Transient},
		"a read that was answered":            {"read", store.OK, others, nil, true, store.OK},
	} {
		l := &loop{draft: c.draft}
		l.state.View, l.state.Grant.Token = c.view, "ours"
		call := &Call{Kind: c.kind, Outcome: c.outcome}
		if c.outcome != store.OK {
			call.Err = errors.New("no answer")
		}
		if got := l.lastWord(call); got != c.reported || call.Outcome != c.as || (call.Err == nil) != (c.as == store.OK) {
			t.Errorf("%s: reported %t as %v, %v; want %t as %v", name, got, call.Outcome, call.Err, c.reported, c.as)
		}
	}
}
