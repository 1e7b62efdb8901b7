package elections_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A mirror with an age has dropped the pause, and answers half of the reads.
func TestPauseThatAMirrorHasDroppedKeepsCandidatesThatStart(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	a := stand(t, nc, "a")
	awaitLeader(t, a)
	if _, err := control(t, nc).Pause(natslab.Within(t), jobs, "migration"); err != nil {
		t.Fatal(err)
	}
	_ = a.Stop() // it would write the pause again
	js := natslab.JetStream(t, nc)
	if _, err := js.CreateStream(natslab.Within(t), jetstream.StreamConfig{
		Name: "copy", Mirror: &jetstream.StreamSource{Name: "KV_" + leaders}, MaxAge: time.Second,
	}); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "the mirror has dropped what it had", func(ctx context.Context) error {
		s, err := js.Stream(ctx, "copy")
		if err != nil {
			return err
		}
		if st := s.CachedInfo().State; st.LastSeq == 0 || st.Msgs > 0 {
			return fmt.Errorf("%d messages, the last is %d", st.Msgs, st.LastSeq)
		}
		return nil
	})
	var all []leader.Election
	for i := range 20 {
		all = append(all, stand(t, srv.Connect(t), fmt.Sprint("late", i)))
	}
	for _, e := range all {
		natslab.Eventually(t, "the candidate knows of the pause", func(context.Context) error {
			s := e.Status()
			if s.IsLeader {
				t.Fatalf("a candidate leads a paused group: %s", s.State)
			}
			if s.Barred != leader.ReasonPaused {
				return errors.New(s.State)
			}
			return nil
		})
	}
}
