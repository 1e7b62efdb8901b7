package exporter

import (
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board/boardtest"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// register follows a store.
func register(t *testing.T, st app.Registers) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(&collector{board: boardtest.Follow(t, st), store: st, bucket: "leaders", connected: func() bool { return true }})
	return reg
}

// follow returns what is scraped of a store: the value of a metric without
// further labels, of the one group, or -1 if there is none.
func follow(t *testing.T, st *memstore.Store) (scraped func(name string) float64) {
	t.Helper()
	reg := register(t, st)
	return func(name string) float64 {
		t.Helper()
		synctest.Wait()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name && len(f.GetMetric()) == 1 {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
}

// A term that comes and goes by itself would count as a change of leader.
func TestTheLastTermIsShownWhateverTookItsRecordsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Restore(nil, 100) // whose revisions are above the terms that follow
		term := follow(t, st)
		for name, take := range map[string]func(){
			"a deletion": func() { st.Delete("reports") },
			"garbage":    func() { st.Put("reports", []byte("garbage")) },
			"a vacancy that knows no term": func() {
				st.Restore([]store.Entry{{Key: "reports", Revision: 1000, Value: []byte(`{"reason":"vacated"}`), Tombstone: true}}, 1000)
			},
		} {
			st.Put("reports", []byte(`{"id":"a","token":"t","ttl":3000,"term":70}`))
			if got := term("election_group_term"); got != 70 {
				t.Fatalf("the leader's term is shown as %v", got)
			}
			take()
			if known, got := term("election_group_leader_known"), term("election_group_term"); known != 0 || got != 70 {
				t.Errorf("after %s somebody leads: %v, in term %v", name, known, got)
			}
		}
		// A store that went back is shown as it is.
		st.Put("reports", []byte(`{"id":"a","token":"u","ttl":3000,"term":60}`))
		if got := term("election_group_term"); got != 60 {
			t.Errorf("the present term is shown as %v", got)
		}
	})
}

func TestHowLongALeaderHasLedIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = "election_group_state_age_seconds"
		st := memstore.New()
		lead := func(id string) { st.Put("reports", []byte(`{"id":"`+id+`","token":"`+id+`","ttl":3000}`)) }
		lead("a")
		scraped := follow(t, st)
		if got := scraped(age); got != -1 {
			t.Errorf("of a leader that was found: %v", got)
		}
		for since, change := range []func(){
			func() { lead("b") }, func() { st.Delete("reports") }, func() { lead("c") },
		} {
			change()
			synctest.Wait()
			time.Sleep(time.Duration(since+1) * 100 * time.Millisecond)
			if got, want := scraped(age), float64(since+1)/10; math.Abs(got-want) > 1e-9 {
				t.Errorf("after %v s: %v", want, got)
			}
		}
	})
}

// An alert is to remind of a pause that keeps the first leader away.
func TestAGroupThatIsPausedBeforeItsFirstLeaderIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("_ctl.early", []byte(`{"paused":{"by":"ann"}}`))
		scraped := follow(t, st)
		demand := func(when string, want map[string]float64) {
			t.Helper()
			for name, value := range want {
				if got := scraped(name); got != value {
					t.Errorf("%s: %s is %v, want %v", when, name, got, value)
				}
			}
		}
		demand("paused", map[string]float64{
			"election_group_paused": 1, "election_group_leader_known": 0, "election_group_vacant": 1, "election_group_term": 0,
			"election_group_state_age_seconds": -1, "election_group_last_renewal_age_seconds": -1, "election_group_lease_remaining_seconds": 0,
			"election_observer_groups": 1,
		})
		st.Put("_ctl.early", []byte(`{}`))
		demand("resumed", map[string]float64{"election_group_paused": -1, "election_group_leader_known": -1, "election_observer_groups": 0})
		st.Put("early", []byte(`{"id":"a","token":"t","ttl":3000}`))
		demand("led", map[string]float64{
			"election_group_paused": 0, "election_group_leader_known": 1, "election_group_vacant": -1, "election_group_leader_changes_total": -1,
		})
	})
}

// A record that is found may be of a leader that died long ago. Reporting it as
// leading would raise the alert on vacancies when its lease has run out.
func TestFoundLeaderIsNotReportedAsLeadingBeforeItRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		renew := func(renewal string) {
			at := strconv.FormatInt(time.Now().UnixMilli(), 10)
			st.Put("reports", []byte(`{"id":"a","token":"t","ttl":3000,"term":1,"renewed":`+at+`,"renewal":`+renewal+`}`))
		}
		renew("1")
		time.Sleep(time.Hour)
		scraped := follow(t, st)
		demand := func(when string, known, info, remaining, vacant, silence float64) {
			t.Helper()
			for name, want := range map[string]float64{
				"election_group_leader_known": known, "election_group_leader_info": info, "election_group_vacant": vacant,
				"election_group_lease_remaining_seconds": remaining, "election_group_term": 1, "election_group_paused": 0,
				"election_group_last_renewal_age_seconds": silence,
			} {
				if got := scraped(name); math.Abs(got-want) > 1e-9 {
					t.Errorf("%s: %s is %v, want %v", when, name, got, want)
				}
			}
		}
		demand("found", -1, -1, -1, -1, 3600)
		time.Sleep(4 * time.Second)
		demand("never renewed", 0, -1, 0, 1, 3604)
		renew("2")
		demand("renewed at last", 1, 1, 3.3, -1, 0)
	})
}

func TestMembersOfAQuorumAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := []*memstore.Store{memstore.New(), memstore.New(), memstore.New()}
		q, err := quorumstore.New([]quorumstore.Member{
			{Name: "a", Store: stores[0]}, {Name: "b", Store: stores[1]}, {Name: "c", Store: stores[2]},
		}, quorumstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.Close() })
		reg := register(t, q)
		write := func(expected uint64) uint64 {
			t.Helper()
			version, err := q.CompareAndSwap(t.Context(), store.Write{Key: "reports", Expected: expected, Value: []byte(`{"id":"a","token":"t","ttl":3000}`)})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the last member takes a write after its acknowledgement
			return version
		}
		first := write(0)
		old, err := stores[1].Get(t.Context(), "reports")
		if err != nil {
			t.Fatal(err)
		}
		write(first)
		stores[1].Restore([]store.Entry{old}, old.Revision)
		stores[2].Restore(nil, 0)
		demand := func(when string) {
			t.Helper()
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]float64)
			for _, f := range families {
				name, ok := strings.CutPrefix(f.GetName(), "election_group_member_")
				for _, m := range f.GetMetric() {
					if ok { // of the labels bucket, member and role
						got[name+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
			want := map[string]float64{"up a": 1, "up b": 1, "up c": 1, "lag a": 0, "lag b": 1, "memory a": 1, "memory b": 1, "memory c": 0}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		demand("c was wiped")
		stores[2].Restore([]store.Entry{apptest.Stranger(t, "reports")}, 1)
		demand("c is of another quorum") // so that the alert for a lost member fires
	})
}
