package arena

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Terms are revisions. If those of a bucket that the lab makes again began at 1,
// the judge would condemn the library for the lab's fault.
func TestBucketMadeAgainContinuesTheTerms(t *testing.T) {
	for name, e := range map[string]schedule.Expiry{
		"ours":                  {},
		"expires":               {MaxAge: time.Second},
		"expires with a marker": {MaxAge: time.Second, Markers: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := natslab.Start(t)
			a := &Arena{shape: schedule.Shape{Nodes: 1}, expiry: e, js: natslab.JetStream(t, s.Connect(t))}
			var last uint64
			for range 2 {
				if err := a.MakeBucket(natslab.Within(t)); err != nil {
					t.Fatal(err)
				}
				state, err := a.State(natslab.Within(t))
				if err != nil {
					t.Fatal(err)
				}
				if state.LastSeq <= last {
					t.Errorf("the last sequence is %d, after %d in the bucket before", state.LastSeq, last)
				}
				last = state.LastSeq
				if err := a.DeleteBucket(natslab.Within(t)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
