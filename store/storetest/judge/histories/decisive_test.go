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

// The writes that the judge leaves out must not change a verdict: small
// histories of any kind, half of which no register produces, are judged with
// them and without.
func TestIndecisiveCallsChangeNoVerdict(t *testing.T) {
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

// drawn is a history of up to eight writes over a few revisions, which sometimes
// fall, and reads that show some of them, during their calls or after.
func drawn(r *rand.Rand) (ops []Op) {
	span := func() (call, end time.Duration) {
		call = time.Duration(r.IntN(12))
		return call, call + 1 + time.Duration(r.IntN(6))
	}
	stood := []uint64{0} // the revisions so far
	next := func() uint64 {
		rev := uint64(10 * len(stood))
		if r.IntN(8) == 0 {
			rev = uint64(1 + r.IntN(9)) // less than all that grew
		}
		stood = append(stood, rev)
		return rev
	}
	read := func(o Op, rev uint64) {
		seen := Op{Client: 9, Key: "k", Read: true, Value: o.Value, Revision: rev}
		seen.Call = o.Call + time.Duration(r.IntN(int(o.Return-o.Call)+3))
		seen.Return = seen.Call + 1 + time.Duration(r.IntN(6))
		ops = append(ops, seen)
	}
	for n := range 2 + r.IntN(7) {
		o := Op{Client: n, Key: "k", Value: fmt.Sprint(n), Expected: stood[r.IntN(len(stood))]}
		if r.IntN(2) == 0 {
			o.Expected = stood[len(stood)-1]
		}
		o.Call, o.Return = span()
		switch o.Outcome = []store.Outcome{store.OK, store.Conflict, store.Unknown}[r.IntN(3)]; {
		case o.Outcome == store.OK:
			o.Revision = next()
			if r.IntN(4) == 0 {
				read(o, o.Revision)
			}
		case o.Outcome == store.Unknown && r.IntN(4) == 0:
			read(o, next())
		}
		ops = append(ops, o)
	}
	r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	return ops
}
