package histories

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-ff2cb582/leader/store"
)

// What the judge leaves out must not change a verdict: small histories of any
// kind, half of which no register tells, are judged with it and without.
func TestWhatIsNotDecisiveChangesNoVerdict(t *testing.T) {
	t.Parallel()
	verdicts, fewer := map[porcupine.CheckResult]int{}, 0
	for seed := range uint64(20_000) {
		steps, err := reckon(drawn(rand.New(rand.NewPCG(seed, 1))))
		if err != nil {
			continue
		}
		j := Judge{CurrentConflicts: seed%2 == 0}
		if !j.CurrentConflicts {
			steps = slices.DeleteFunc(steps, func(s step) bool { return s.op.Outcome == store.Conflict })
		}
		all := porcupine.CheckOperationsTimeout(register, operations(steps), 0)
		kept := j.decisive(steps)
		if got := porcupine.CheckOperationsTimeout(register, operations(kept), 0); got != all {
			t.Fatalf("seed %d: %v, and %v without what is not decisive: %v", seed, all, got, steps)
		}
		verdicts[all]++
		if len(kept) < len(steps) {
			fewer++
		}
	}
	t.Log(verdicts, fewer)
	if verdicts[porcupine.Ok] < 1000 || verdicts[porcupine.Illegal] < 1000 || fewer < 1000 {
		t.Errorf("verdicts %v, of which %d without some writes: too few to tell", verdicts, fewer)
	}
}

// drawn is a history of up to eight writes over a few revisions, and reads that
// show some of those whose outcome nobody knows.
func drawn(r *rand.Rand) (ops []Op) {
	span := func() (call, end time.Duration) {
		call = time.Duration(r.IntN(12))
		return call, call + 1 + time.Duration(r.IntN(6))
	}
	rev := uint64(0)
	for n := range 2 + r.IntN(7) {
		o := Op{Client: n, Key: "k", Value: fmt.Sprint(n), Expected: uint64(r.IntN(int(rev) + 1))}
		if r.IntN(2) == 0 {
			o.Expected = rev
		}
		o.Call, o.Return = span()
		switch o.Outcome = []store.Outcome{store.OK, store.Conflict, store.Unknown}[r.IntN(3)]; {
		case o.Outcome == store.OK:
			rev++
			o.Revision = rev
		case o.Outcome == store.Unknown && r.IntN(4) == 0:
			rev++
			read := Op{Client: 9, Key: "k", Read: true, Value: o.Value, Revision: rev}
			read.Call = o.Return
			read.Return = o.Return + 1 + time.Duration(r.IntN(6))
			ops = append(ops, read)
		}
		ops = append(ops, o)
	}
	return ops
}
