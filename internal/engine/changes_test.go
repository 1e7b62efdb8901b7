package engine

import (
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

func TestEachWriteStatesItsTermAndBeginning(t *testing.T) {
	before := record.Record{Token: "before", Transitions: 3, Acquired: 100}
	c := &changes{token: "ours", claimed: 4, acquired: 200}
	for name, w := range map[string]struct {
		c       *changes
		write   machine.WriteKind
		rec     machine.Record
		granted uint64
		count   uint64
		want    record.Moment
	}{
		"a claim":   {c, machine.Acquire, machine.Record{ID: "a", Token: "ours"}, 0, 4, 200},
		"a renewal": {c, machine.Renew, machine.Record{ID: "a", Token: "ours", Term: 7}, 7, 4, 200},
		"a vacancy": {c, machine.Release, machine.Record{Token: "ours", Term: 7}, 7, 4, 200},
		// Of these the term is the one before.
		"a vacancy in place of a claim":             {c, machine.Release, machine.Record{Token: "ours", Term: 5}, 0, 3, 100},
		"a vacancy by one that has claimed nothing": {nil, machine.Release, machine.Record{Token: "before", Term: 5}, 0, 3, 100},
		"a vacancy after another's term":            {c, machine.Release, machine.Record{Token: "before", Term: 5}, 0, 3, 100},
	} {
		a := &machine.Action{Kind: machine.Send, Write: w.write, Rec: w.rec}
		if count, acquired := w.c.with(a, w.granted, &before); count != w.count || acquired != w.want {
			t.Errorf("%s: %d since %d, want %d since %d", name, count, acquired, w.count, w.want)
		}
	}
}
