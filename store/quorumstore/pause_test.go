package quorumstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
)

func TestPausesGrowAndDiffer(t *testing.T) {
	const trip, patience = 20 * time.Millisecond, 2 * time.Second
	for _, c := range []struct {
		waits  int
		random float64
		want   time.Duration
	}{
		{0, 0, trip},
		{0, 1, 3 * trip},
		{1, 0, 2 * trip},
		{3, 0.5, 16 * trip},
		{100, 0, patience / 3},
		{100, 1, patience},
	} {
		if got := pause(trip, c.waits, patience, c.random); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("after %d waits, at random %v: %v, want %v", c.waits, c.random, got, c.want)
		}
	}
}

// A call that ends by its deadline does not end the contention.
func TestPausesGrowFromCallToCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faults []*faultstore.Faults
		var members []Member
		for _, name := range []string{"a", "b", "c"} {
			f := faultstore.New(faultstore.Options{})
			t.Cleanup(f.Close)
			faults = append(faults, f)
			members = append(members, Member{Name: name, Store: f.Client("p")})
		}
		s, err := New(members, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		r := s.register("k")
		write := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := s.CompareAndSwap(ctx, store.Write{Key: "k"})
			return err
		}
		for _, f := range faults[1:] {
			f.BlackHole("p") // the first accepts
		}
		if err := write(); err == nil || r.waits == 0 || r.waits > 2000 {
			t.Errorf("%d waits after %v", r.waits, err)
		}
		for _, f := range faults {
			f.Heal("p")
		}
		if err := write(); err != nil || r.waits != 0 {
			t.Errorf("%d waits after %v", r.waits, err)
		}
	})
}
