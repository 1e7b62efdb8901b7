package runner

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/candidate"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A program that cannot be ended lives for as long as it likes.
func TestNothingIsReleasedForAsLongAsTheProgramLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Command{Group: "jobs", Flags: candidate.Flags{ID: "a", Target: app.Target{Bucket: "leaders"}}}
		cfg, _, err := c.config(nil, app.Streams{Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		st := memstore.New()
		e, err := leader.NewElectionWithStore(st, cfg)
		if err != nil {
			t.Fatal(err)
		}
		began, ended := make(chan struct{}), make(chan struct{})
		e.OnPromote(func(context.Context, string) {
			close(began)
			<-ended
		})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-began
		go func() { _ = e.Resign(t.Context()) }() // its answer comes after the release
		for range 5 {
			time.Sleep(time.Hour)
			if holder := holderOf(t, st); holder != "a" || e.IsLeader() {
				t.Errorf("the record is held by %q, and a leads: %v", holder, e.IsLeader())
				break
			}
		}
		close(ended)
		synctest.Wait()
		if holder := holderOf(t, st); holder != "" {
			t.Errorf("after the program's end the record is held by %q", holder)
		}
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func holderOf(t *testing.T, st *memstore.Store) string {
	t.Helper()
	info, err := leader.SnapshotWithStore(t.Context(), st, "jobs")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range info {
		return g.ID
	}
	return ""
}
