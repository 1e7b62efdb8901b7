package engine

import (
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

func TestEachWriteSaysWhenTheTermThatItIsAboutWasAcquired(t *testing.T) {
	before := record.Record{Token: "before", Transitions: 3, Acquired: 100}
	c := &changes{token: "ours", claimed: 4, acquired: 200}
	for name, w := range map[string]struct {
		c       *changes
		write   machine.WriteKind
		rec     machine.Record
		granted uint64
		want    record.Moment
	}{
		"a claim":   {c, machine.Acquire, machine.Record{ID: "a", Token: "ours"}, 0, 200},
		"a renewal": {c, machine.Renew, machine.Record{ID: "a", Token: "ours", Term: 7}, 7, 200},
		"a vacancy": {c, machine.Release, machine.Record{Token: "ours", Term: 7}, 7, 200},
		// Of these the term is the one before.
		"a vacancy in place of a claim":                     {c, machine.Release, machine.Record{Token: "ours", Term: 5}, 0, 100},
		"a vacancy in place of a claim of what was offered": {c, machine.Release, machine.Record{Token: "ours", Term: 5}, 7, 100},
		"a vacancy by one that has claimed nothing":         {nil, machine.Release, machine.Record{Token: "before", Term: 5}, 0, 100},
		"a vacancy after another's term":                    {c, machine.Release, machine.Record{Token: "before", Term: 5}, 0, 100},
	} {
		a := &machine.Action{Kind: machine.Send, Write: w.write, Rec: w.rec}
		if _, acquired := w.c.with(a, w.granted, &before); acquired != w.want {
			t.Errorf("%s: %d, want %d", name, acquired, w.want)
		}
	}
}
