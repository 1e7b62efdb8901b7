package advisory_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestMalformedAdvisoryIsRefused(t *testing.T) {
	for _, data := range []string{
		"", "null", "[]", `"x"`, "{}", `{"version":2,"group":"g","instance":"a","event":"promoted"}`,
		`{"version":1,"instance":"a","event":"promoted"}`, `{"version":1,"group":"g","event":"promoted"}`,
		`{"version":1,"group":"g","instance":"a"}`, `{"version":1,"group":7,"instance":"a","event":"promoted"}`,
		`{"version":1,"group":"g","instance":"a","event":"promoted","text":"` + strings.Repeat("x", 64<<10) + `"}`,
		`{"version":1,"group":"g","instance":"a","event":"promoted","term":9007199254740993}`,
		// Times that have no RFC 3339 text in UTC.
		`{"version":1,"group":"g","instance":"a","event":"promoted","time":"9999-12-31T23:59:59-01:00"}`,
		`{"version":1,"group":"g","instance":"a","event":"promoted","time":"0000-01-01T00:00:00+01:00"}`,
		`{"version":1,"group":"g","instance":"a","event":"following","leader":"b","leader_term":18446744073709551615}`,
	} {
		if a, err := advisory.Decode([]byte(data)); !errors.Is(err, advisory.ErrMalformed) || a != (advisory.Advisory{}) {
			t.Errorf("%.60q: %v %+v", data, err, a)
		}
	}
	// Fields of the future are ignored.
	a, err := advisory.Decode([]byte(`{"version":1,"group":"g","instance":"a","event":"promoted","mood":"good","term":7}`))
	if err != nil || a.Term != 7 {
		t.Errorf("%v: %+v", err, a)
	}
}

// Rights to publish are granted by subject: a candidate of one group must not
// report on another.
func TestAdvisoryOfAnotherGroupThanItsSubjectIsRefused(t *testing.T) {
	told := []byte(`{"version":1,"bucket":"b","group":"g.x","instance":"a","event":"promoted"}`)
	for subject, want := range map[string]error{
		"leader-advisory.b.promoted.g.x":                              nil,
		"account.leader-advisory.b.promoted.g.x":                      nil, // imported under a prefix
		"renamed.by.an.import":                                        nil,
		"leader-advisory.b.promoted.g":                                advisory.ErrMalformed,
		"leader-advisory.b.promoted.g.x.y":                            advisory.ErrMalformed,
		"leader-advisory.b.demoted.g.x":                               advisory.ErrMalformed,
		"leader-advisory.c.promoted.g.x":                              advisory.ErrMalformed,
		"account.leader-advisory.c.promoted.g.x":                      advisory.ErrMalformed,
		"not-leader-advisory.c.promoted.g.x":                          nil,
		"leader-advisory.c.promoted.h.leader-advisory.b.promoted.g.x": advisory.ErrMalformed,
	} {
		if a, err := advisory.DecodeOn(subject, told); !errors.Is(err, want) || (err == nil) != (a.Group == "g.x") {
			t.Errorf("%s: %+v, %v", subject, a, err)
		}
	}
	without := []byte(`{"version":1,"group":"g","instance":"a","event":"stopped"}`)
	if _, err := advisory.DecodeOn("leader-advisory._.stopped.g", without); err != nil {
		t.Error(err)
	}
}

func TestSubjectsPutTheGroupLast(t *testing.T) {
	for want, got := range map[string]string{
		"leader-advisory.leaders.promoted.jobs/eu.west": advisory.Subject("leaders", leader.EventPromoted, "jobs/eu.west"),
		"leader-advisory._.note.g":                      advisory.Subject("", advisory.EventNote, "g"),
		"leader-advisory.*.demoted.>":                   advisory.Subject("*", leader.EventDemoted, ">"),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Without a connection nothing is sent, and nothing waits for it.
func TestPublisherWithoutAConnectionDropsAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := advisory.New(nil, advisory.Options{})
		transitions := uint64(0)
		count := leader.Hooks{Transition: func(leader.Transition) { transitions++ }}
		e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
			Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second, Hooks: leader.JoinHooks(count, p.Hooks()),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begun := time.Now()
		if err := e.Stop(); err != nil || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if n := p.Dropped(); n != transitions || n == 0 {
			t.Errorf("%d of %d dropped", n, transitions)
		}
	})
}

func at(second int) time.Time { return time.Date(2026, 11, 20, 14, 3, second, 0, time.UTC) }

func told(second int, instance string, event leader.Event) advisory.Advisory {
	return advisory.Advisory{Bucket: "b", Group: "g", Instance: instance, Event: event, Time: at(second)}
}

func promoted(second int, instance string, term uint64) advisory.Advisory {
	a := told(second, instance, leader.EventPromoted)
	a.Term, a.Leader, a.LeaderTerm, a.Correlation = term, instance, term, "c"
	return a
}

func demoted(second int, instance string, term uint64, why leader.Reason) advisory.Advisory {
	a := told(second, instance, leader.EventDemoted)
	a.Term, a.LeaderTerm, a.Correlation, a.Reason, a.By, a.Why = term, term, "c", why, "ann", "upgrade"
	return a
}

func late(second int, instance string, term uint64) advisory.Advisory {
	a := told(second, instance, leader.EventDemoted)
	a.LeaderTerm, a.Correlation, a.Reason = term, "c", leader.ReasonLateGrant
	return a
}

func campaigning(second int, instance string, term uint64) advisory.Advisory {
	a := told(second, instance, leader.EventCampaigning)
	a.LeaderTerm, a.Reason = term, leader.ReasonExpired
	return a
}

func following(second int, instance, whom string, term uint64) advisory.Advisory {
	a := told(second, instance, leader.EventFollowing)
	a.Leader, a.LeaderTerm, a.Correlation = whom, term, "c"
	return a
}

func TestTermsSayWhoLedWhen(t *testing.T) {
	term := func(who string, term uint64, began, ended time.Time, why leader.Reason, by, words string) advisory.Term {
		return advisory.Term{
			Bucket: "b", Group: "g", Leader: who, Number: term, Correlation: "c", Began: began, Ended: ended, Reason: why, By: by, Why: words,
		}
	}
	never := time.Time{}
	for name, c := range map[string]struct {
		history []advisory.Advisory
		want    []advisory.Term
	}{
		"nothing": {},
		"still leading": {
			[]advisory.Advisory{promoted(1, "a", 7)},
			[]advisory.Term{term("a", 7, at(1), never, "", "", "")},
		},
		"told by itself": {
			[]advisory.Advisory{promoted(1, "a", 7), demoted(5, "a", 7, leader.ReasonSteppedDown), campaigning(6, "b", 7), promoted(7, "b", 9)},
			[]advisory.Term{
				term("a", 7, at(1), at(5), leader.ReasonSteppedDown, "ann", "upgrade"), term("b", 9, at(7), never, "", "", ""),
			},
		},
		"a crash that others noticed": {
			[]advisory.Advisory{promoted(1, "a", 7), campaigning(6, "c", 7), campaigning(5, "b", 7), promoted(7, "b", 9)},
			[]advisory.Term{term("a", 7, at(1), at(5), leader.ReasonExpired, "", ""), term("b", 9, at(7), never, "", "", "")},
		},
		"a candidate that was cut off, and follows again": {
			[]advisory.Advisory{promoted(1, "a", 7), following(2, "b", "a", 7), campaigning(5, "b", 7), following(8, "b", "a", 7)},
			[]advisory.Term{term("a", 7, at(1), never, "", "", "")},
		},
		"one that was cut off before a crash": {
			[]advisory.Advisory{
				promoted(1, "a", 7), campaigning(3, "b", 7), following(4, "b", "a", 7), campaigning(6, "c", 7), campaigning(7, "b", 7), promoted(9, "b", 9),
			},
			[]advisory.Term{term("a", 7, at(1), at(6), leader.ReasonExpired, "", ""), term("b", 9, at(9), never, "", "", "")},
		},
		// The candidate was never promoted in the term, and so names it as the
		// leader's.
		"a claim whose answer came too late": {
			[]advisory.Advisory{
				promoted(1, "a", 7), demoted(5, "a", 7, leader.ReasonTrustExpired), following(8, "a", "b", 9), late(8, "b", 9), campaigning(9, "a", 9),
				promoted(9, "c", 11),
			},
			[]advisory.Term{
				term("a", 7, at(1), at(5), leader.ReasonTrustExpired, "ann", "upgrade"), term("b", 9, at(8), at(8), leader.ReasonLateGrant, "", ""),
				term("c", 11, at(9), never, "", "", ""),
			},
		},
		"a crash that nobody told of": {
			[]advisory.Advisory{promoted(1, "a", 7), promoted(7, "b", 9)},
			[]advisory.Term{term("a", 7, at(1), at(7), "", "", ""), term("b", 9, at(7), never, "", "", "")},
		},
		"a leader whose own advisories were lost": {
			[]advisory.Advisory{following(2, "b", "a", 7)},
			[]advisory.Term{term("a", 7, never, never, "", "", "")},
		},
		"a term of which only the end is known": {
			[]advisory.Advisory{campaigning(2, "b", 7)},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := advisory.Terms(slices.Values(c.history)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
			slices.Reverse(c.history)
			if got := advisory.Terms(slices.Values(c.history)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("in another order: %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// A follower that hears nothing takes the lease to be over, and publishes that
// when it is connected again. The leader leads all the time.
func TestATermGoesOnBesideAFollowerThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(faultstore.Options{})
		defer f.Close()
		var mu sync.Mutex
		var history []advisory.Advisory
		stand := func(id string) leader.Election {
			tell := func(tr leader.Transition) {
				mu.Lock()
				defer mu.Unlock()
				history = append(history, advisory.Advisory{
					Group: "g", Instance: id, Event: tr.Event, Time: tr.At, Term: tr.Term.Number, Leader: tr.LeaderID, LeaderTerm: tr.LeaderTerm, Reason: tr.Reason,
				})
			}
			e, err := leader.NewElectionWithStore(f.Client(id), leader.ElectionConfig{
				Group: "g", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second, Hooks: leader.Hooks{Transition: tell},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			return e
		}
		a := stand("a")
		b := stand("b")
		f.BlackHole("b")
		time.Sleep(time.Minute)
		f.Heal("b")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !a.IsLeader() || b.Status().State != leader.StateFollower {
			t.Fatalf("a leads: %v, b is a %s", a.IsLeader(), b.Status().State)
		}
		mu.Lock()
		heard := slices.Clone(history)
		mu.Unlock()
		for _, e := range []leader.Election{b, a} {
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
		}
		if !slices.ContainsFunc(heard, func(x advisory.Advisory) bool { return x.Instance == "b" && x.Reason == leader.ReasonExpired }) {
			t.Errorf("b has not taken the lease to be over: %+v", heard)
		}
		terms := advisory.Terms(slices.Values(heard))
		if len(terms) != 1 || terms[0].Leader != "a" || !terms[0].Ended.IsZero() {
			t.Errorf("%+v", terms)
		}
	})
}

func TestTermsOfGroupsAreKeptApart(t *testing.T) {
	other := promoted(3, "a", 7)
	other.Group = "f"
	elsewhere := promoted(3, "a", 7)
	elsewhere.Bucket = "a"
	var got []string
	for _, r := range advisory.Terms(slices.Values([]advisory.Advisory{promoted(1, "a", 8), other, promoted(0, "b", 7), elsewhere})) {
		got = append(got, r.Bucket+r.Group+r.Leader)
	}
	if want := []string{"aga", "bfa", "bgb", "bga"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestTermCoversTheTimeFromPromotionToItsEnd(t *testing.T) {
	r := advisory.Term{Began: at(1), Ended: at(5)}
	for second, want := range map[int]bool{0: false, 1: true, 4: true, 5: false} {
		if r.Covers(at(second)) != want {
			t.Errorf("second %d: %v", second, !want)
		}
	}
	if open := (advisory.Term{Began: at(1)}); !open.Covers(at(59)) {
		t.Error("a term without an end has ended")
	}
	if unknown := (advisory.Term{Ended: at(5)}); unknown.Covers(at(2)) {
		t.Error("a term without a beginning covers a time")
	}
}
