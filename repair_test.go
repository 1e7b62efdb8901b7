package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Something that nobody can read is written over a pause. Those that know of
// the pause went on as paused, and those that started later led the group.
func TestAPauseThatIsWrittenOverStandsForAllCandidates(t *testing.T) {
	for name, lag := range map[string]time.Duration{"at once": 0, "a slow store": ttl / 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := network(t, func(faultstore.Call) faultstore.Fate { return faultstore.Fate{Delay: lag} })
				operator := control(t, f.Client("operator"))
				var all []leader.Election
				for _, id := range []string{"a", "b"} {
					all = append(all, start(t, f.Client(id), config(id)))
				}
				time.Sleep(ttl)
				if _, err := operator.Pause(lasting(t, time.Minute), "g", "migration"); err != nil {
					t.Fatal(err)
				}
				// A pause of which nobody has heard is lost: a watch shows the latest.
				time.Sleep(2 * lag)
				synctest.Wait()
				for i := range 3 { // also again, after it was repaired
					put(t, f.Client("somebody"), record.ControlKey("g"), []string{"what is", "this", fmt.Sprint(i)})
					id := fmt.Sprint("late", i)
					all = append(all, start(t, f.Client(id), config(id)))
					for range 100 {
						time.Sleep(5 * ttl / 100)
						mustNotLead(t, all...)
					}
					for _, e := range all {
						if s := e.Status(); s.Barred != leader.ReasonPaused {
							t.Errorf("%v", s)
						}
					}
					if s := state(t, operator); !s.Paused || s.PausedBy != "ops" || s.PausedWhy != "migration" {
						t.Errorf("%+v", s)
					}
				}
				if _, err := operator.Resume(lasting(t, time.Minute), "g"); err != nil {
					t.Fatal(err)
				}
				halt(t, all...)
			})
		})
	}
}

// What nobody can read keeps nobody from leading for longer than a lease, and
// is told of.
func TestAControlRecordThatNobodyCanReadDelaysTheFirstLeaderAtTheMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j, cfg := memstore.New(), newJournal(), config("a")
		put(t, st, record.ControlKey("g"), "pause, please")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteMalformed {
				j.note("%s", n.Kind)
			}
		}
		a := start(t, st, cfg)
		mustNotLead(t, a)
		time.Sleep(ttl)
		mustLead(t, a)
		put(t, st, record.ControlKey("g"), "please")
		time.Sleep(ttl)
		mustLead(t, a)
		halt(t, a)
		j.demand(t, "malformed", "malformed")
	})
}

// A program may be older than those who write the control record.
func TestWhoChangesTheControlRecordKeepsWhatItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		put(t, st, record.ControlKey("g"), map[string]any{
			"op": "reboot", "term": a.Term().Number, "paused": map[string]any{"by": "ops", "until": "2031"}, "quorum": 3,
		})
		synctest.Wait()
		mustNotLead(t, a) // the pause is known, though the operation is not
		operator := control(t, st)
		holds := func(want string) {
			t.Helper()
			entry, err := st.Get(t.Context(), record.ControlKey("g"))
			if err != nil || !strings.Contains(string(entry.Value), want) {
				t.Errorf("no %s in %s, %v", want, entry.Value, err)
			}
		}
		if _, err := operator.File(t.Context(), leader.Request{Op: leader.OpStepDown, Group: "g", Term: 1}); err != nil {
			t.Fatal(err)
		}
		holds(`"until":"2031"`)
		holds(`"quorum":3`)
		if _, err := operator.Resume(lasting(t, time.Minute), "g"); err != nil {
			t.Fatal(err)
		}
		holds(`"quorum":3`)
		mustLead(t, a)
	})
}
