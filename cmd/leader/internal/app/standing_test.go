package app_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// lease is how long the records of these tests are honoured: 20 s and the drift.
const lease = 22 * time.Second

// standings opens a store that does not report when it stored a record, and
// judges its groups.
func standings(t *testing.T, st *memstore.Store, timeout time.Duration) (all []app.Standing, took time.Duration) {
	t.Helper()
	s, err := apptest.Elsewhere(st, timeout).Open("test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return judge(t, s, st)
}

func judge(t *testing.T, s *app.Session, st *memstore.Store) (all []app.Standing, took time.Duration) {
	t.Helper()
	infos, err := leader.SnapshotWithStore(t.Context(), st, ">")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	all = s.Standings(t.Context(), infos)
	return all, time.Since(began)
}

// A third of the lease is the longest time from one renewal to the next.
func TestSilentHolderLeadsNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		want    time.Duration // how long the record is watched
	}{
		"time enough":   {time.Minute, lease / 3},
		"until timeout": {5 * time.Second, 4500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			const many = 100
			for i := range many {
				apptest.Lead(t, st, fmt.Sprint("g", i), "gone", time.Hour)
			}
			ended := time.Now().Add(lease - time.Hour).Truncate(time.Millisecond)
			all, took := standings(t, st, c.timeout)
			if took != c.want || len(all) != many {
				t.Errorf("%s: %d groups took %v, want %v", name, len(all), took, c.want)
			}
			for _, s := range all {
				if s.ID != "" || s.Last != "gone" || s.Term != 1 || s.Reason != leader.ReasonExpired || !s.Ended.Equal(ended) || !s.StoredAt.IsZero() {
					t.Errorf("%s: %+v", name, s)
				}
			}
		})
	}
}

func TestHolderThatRenewsLeadsByWhateverClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "a", time.Hour)
		time.AfterFunc(4*time.Second, func() { apptest.Lead(t, st, "g", "a", time.Hour) })
		all, took := standings(t, st, 5*time.Second)
		if all[0].ID != "a" || time.Until(all[0].Until) != lease || took < 4*time.Second {
			t.Errorf("after %v: %+v", took, all[0])
		}
	})
}

func TestRecordThatChangesWhileItIsWatchedIsJudgedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "gone", time.Hour)
		time.AfterFunc(time.Second, func() { apptest.Lead(t, st, "g", "next", 0) })
		if all, _ := standings(t, st, 5*time.Second); all[0].ID != "next" {
			t.Errorf("%+v", all[0])
		}
	})
}

// Otherwise a list of many healthy groups would be slow.
func TestHolderThatRenewedInTimeIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "a", "ahead", -time.Hour)
		apptest.Lead(t, st, "b", "behind", lease+time.Second) // clocks may be apart
		apptest.Lead(t, st, "c", "right", 5*time.Second)
		st.Put("d", []byte(`{"id":"foreign"}`))
		all, took := standings(t, st, 5*time.Second)
		if took != 0 {
			t.Errorf("it took %v", took)
		}
		for i, want := range []struct {
			id   string
			left time.Duration
		}{{"ahead", lease}, {"behind", 0}, {"right", 17 * time.Second}} {
			if s := all[i]; s.ID != want.id || time.Until(s.Until).Round(time.Millisecond) != want.left {
				t.Errorf("want %v: %+v", want, s)
			}
		}
		if all[3].ID != "foreign" {
			t.Errorf("%+v", all[3])
		}
	})
}

// An agent is asked again and again.
func TestSessionRemembersHowLongARecordHasBeenSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "gone", time.Hour)
		s, err := apptest.Elsewhere(st, 5*time.Second).Open("test")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i, want := range []time.Duration{4500 * time.Millisecond, lease/3 - 4500*time.Millisecond, 0} {
			if all, took := judge(t, s, st); took != want || all[0].Last != "gone" {
				t.Errorf("question %d took %v, want %v: %+v", i, took, want, all[0])
			}
		}
		apptest.Lead(t, st, "g", "again", time.Hour)
		if all, took := judge(t, s, st); took != 4500*time.Millisecond || all[0].Last != "again" {
			t.Errorf("of another record it took %v: %+v", took, all[0])
		}
	})
}

func TestPlaceNamesABucketOnNATSAlone(t *testing.T) {
	s, err := apptest.Elsewhere(memstore.New(), time.Minute).Open("test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Place(); got != "memory://" {
		t.Errorf("elsewhere: %q", got)
	}
	if got := (&app.Session{Bucket: "b", URL: "nats://a"}).Place(); got != `bucket "b" of nats://a` {
		t.Errorf("on NATS: %q", got)
	}
}
