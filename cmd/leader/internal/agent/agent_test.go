package agent

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

const (
	ttl    = 3 * time.Second
	window = 2700 * time.Millisecond // TTL × (1 − drift)
)

// A lab is an agent on a store in memory, whose requests take no time.
type lab struct {
	t      *testing.T
	st     *memstore.Store
	stored map[string]time.Time // when the server stored a group's record, if it reports that
	s      *server
	h      http.Handler
}

// sign has the agent make proofs, with a key that it returns.
func (l *lab) sign() proof.Key {
	l.t.Helper()
	key, err := proof.GenerateKey()
	if err != nil {
		l.t.Fatal(err)
	}
	l.s.key = &key
	return key
}

func newLab(t *testing.T) *lab {
	t.Helper()
	count, err := newCounters()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, st: memstore.New()}
	l.s = &server{
		registry: registry{
			most: 4, share: 1, patience: time.Second, count: count,
			byHandle: map[string]*candidate{}, byName: map[name]*candidate{},
			open: func(cfg leader.ElectionConfig) (leader.Election, error) {
				return leader.NewElectionWithStore(l.st, cfg)
			},
		},
		judge: func(_ context.Context, infos []leader.LeaderInfo) (all []app.Standing) {
			for _, info := range infos {
				all = append(all, app.Judge(info, l.stored[info.Group], 0, time.Now()))
			}
			return all
		},
		gate: gate{named: true, count: count}, st: l.st, timeout: time.Second, streams: make(chan struct{}, 2),
		log: slog.New(slog.DiscardHandler), profile: leader.ProfileLowLatency,
		base: leader.ElectionConfig{AcquireGrace: leader.GraceOff, TTL: ttl},
	}
	l.h = l.s.handler()
	t.Cleanup(l.s.drain)
	return l
}

// ask sends a request. The answer must have the status.
func (l *lab) ask(want int, method, path, body string) string {
	l.t.Helper()
	r := httptest.NewRequestWithContext(l.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	l.h.ServeHTTP(w, r)
	got, _ := io.ReadAll(w.Result().Body)
	if w.Code != want {
		l.t.Fatalf("%s %s: status %d, want %d: %s", method, path, w.Code, want, got)
	}
	return string(got)
}

// A client is a client that has a candidate on the agent.
type client struct {
	*lab

	path string
	// until is the end of its trust, from when it sent the request.
	until time.Time
	status
}

func (l *lab) campaign(id, more string) *client {
	l.t.Helper()
	c := &client{lab: l}
	c.take(http.StatusCreated, http.MethodPost, "/v1/groups/g/candidates", `{"instance_id":"`+id+`"`+more+`}`)
	c.path = "/v1/groups/g/candidates/" + c.Candidate
	return c
}

// take sends a request, whose answer contains how long the client is trusted.
func (c *client) take(want int, method, path, body string) {
	c.t.Helper()
	sent := time.Now()
	c.status = status{}
	if err := json.Unmarshal([]byte(c.ask(want, method, path, body)), &struct {
		*status
		*times
	}{&c.status, c.reset()}); err != nil {
		c.t.Fatal(err)
	}
	c.until = sent.Add(time.Duration(c.Trust) * time.Millisecond)
}

func (c *client) reset() *times {
	c.times = &times{}
	return c.times
}

func (c *client) keep() {
	c.t.Helper()
	c.take(http.StatusOK, http.MethodPost, c.path+"/keepalive", "")
}

// lead keeps alive until the client is trusted.
func (c *client) lead() {
	c.t.Helper()
	for range 1000 {
		c.keep()
		if c.Trust > 0 {
			return
		}
		after(10 * time.Millisecond)
	}
	c.t.Fatalf("%s does not lead: %+v", c.InstanceID, c.status)
}

// after returns later, in virtual time.
func after(d time.Duration) { <-time.After(d) }

// rival starts another candidate of the group.
func (l *lab) rival() *rival {
	l.t.Helper()
	r := &rival{led: make(chan time.Time, 1)}
	e, err := leader.NewElectionWithStore(l.st, leader.ElectionConfig{
		Group: "g", InstanceID: "rival", TTL: ttl, HeartbeatInterval: ttl / 5, AcquireGrace: leader.GraceOff, DeleteOnStop: true,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	e.OnPromote(func(context.Context, string) { r.led <- time.Now() })
	if err := e.Start(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	r.Election = e
	l.t.Cleanup(func() { _ = e.Stop() })
	return r
}

type rival struct {
	leader.Election

	led chan time.Time
}

// leads returns when it came to lead.
func (r *rival) leads(t *testing.T) (at time.Time) {
	t.Helper()
	select {
	case at = <-r.led:
	case <-time.After(time.Hour): // of virtual time
		t.Fatal("nobody follows the client")
	}
	return at
}

func in(t *testing.T, test func(*testing.T, *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newLab(t)) })
}

func TestTrustEndsWithTheWindowAndWithTheClientsLease(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", `,"lease_ms":10000`)
		c.lead()
		if most := window.Milliseconds(); c.Trust > most || c.Trust < most-1000 {
			t.Errorf("trusted for %d ms, want the window, %d at the most", c.Trust, most)
		}
		short := l.campaign("b", `,"lease_ms":1000`)
		short.succeed(c)
		if short.Trust > 1000 || short.Trust < 900 {
			t.Errorf("trusted for %d ms, want the lease, 1000 at the most", short.Trust)
		}
		after(400 * time.Millisecond)
		before := short.until
		short.take(http.StatusOK, http.MethodGet, short.path, "")
		if short.until.After(before) {
			t.Errorf("a status, which is not a keepalive, moved the end of the trust by %v", short.until.Sub(before))
		}
	})
}

// succeed has another client leave, and leads in its place.
func (c *client) succeed(other *client) {
	c.t.Helper()
	other.ask(http.StatusNoContent, http.MethodDelete, other.path+"?stopped_term="+number(other.Term), "")
	c.lead()
}

func TestSilentClientIsWithdrawnAfterItsTrustAndReleasedAtOnce(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", `,"lease_ms":1000`)
		c.lead()
		r := l.rival()
		c.keep()
		end := time.Now().Add(time.Second)
		at := r.leads(t)
		if at.Before(c.until) {
			t.Errorf("the next leads %v before the trust of the silent client ended", c.until.Sub(at))
		}
		if late := at.Sub(end); late > 100*time.Millisecond {
			t.Errorf("the next leads %v after the end of the silent client's lease", late)
		}
		after(time.Second) // the stop ends
		c.ask(http.StatusNotFound, http.MethodPost, c.path+"/keepalive", "")
	})
}

func TestReleaseWaitsForTheClientsWordOrTheEndOfItsTrust(t *testing.T) {
	t.Parallel()
	for name, word := range map[string]bool{"word": true, "trust": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, l *lab) {
				c := l.campaign("a", "")
				c.lead()
				r := l.rival()
				after(100 * time.Millisecond) // it follows
				c.keep()
				asked := time.Now()
				control, err := leader.NewControlWithStore(l.st, "operator")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := control.File(t.Context(), leader.Request{Group: "g", Op: leader.OpStepDown}); err != nil {
					t.Fatal(err)
				}
				after(200 * time.Millisecond)
				select {
				case <-r.led:
					t.Fatal("another leads while the client is trusted and has not stopped")
				default:
				}
				trusted, term := c.until, c.Term
				c.take(http.StatusOK, http.MethodPost, c.path+"/keepalive", "")
				if c.Trust != 0 || c.Term != 0 || c.StoppingTerm != term || c.State != leader.StateDemoted {
					t.Fatalf("after the end of term %d: %+v, %+v", term, c.status, c.times)
				}
				if word {
					c.take(http.StatusOK, http.MethodPost, c.path+"/resign", `{"stopped_term":`+number(term)+`}`)
				}
				at := r.leads(t)
				if took := at.Sub(asked); word && took > 300*time.Millisecond {
					t.Errorf("the next leads %v after the request, although the client had stopped", took)
				}
				if !word && (at.Before(trusted) || at.After(trusted.Add(100*time.Millisecond))) {
					t.Errorf("the next leads %v after the end of the trust, want at once and not before", at.Sub(trusted))
				}
			})
		})
	}
}

func number(term uint64) string { return strconv.FormatUint(term, 10) }

func TestResignationHandsOverAtOnceWhenTheWorkHasStopped(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", "")
		c.lead()
		r := l.rival()
		after(time.Second)
		c.keep()
		begun := time.Now()
		c.take(http.StatusOK, http.MethodPost, c.path+"/resign", `{"stopped_term":`+number(c.Term)+`}`)
		if took := r.leads(t).Sub(begun); took > 50*time.Millisecond {
			t.Errorf("the next leads after %v", took)
		}
		if c.Trust != 0 || c.Term != 0 || c.StoppingTerm != 0 {
			t.Errorf("after the resignation: %+v, %+v", c.status, c.times)
		}
		// It remains a candidate, and leads again when the other leaves.
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		c.lead()
	})
}

// A client that reports that it has stopped is trusted no more, also while the
// term runs on until the resignation is heard.
func TestNothingIsGrantedAfterTheWordThatTheWorkHasStopped(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", "")
		c.lead()
		one, err := l.s.find("g", c.Candidate)
		if err != nil {
			t.Fatal(err)
		}
		if err := one.acknowledge(c.Term); err != nil {
			t.Fatal(err)
		}
		if !one.e.IsLeader() {
			t.Fatal("the term is over, and this shows nothing")
		}
		c.keep()
		if c.Trust != 0 || c.Term != 0 {
			t.Errorf("trusted for %d ms in term %d", c.Trust, c.Term)
		}
	})
}

// Otherwise the agent would lead on for a client that has stopped, and that
// never gets a new term.
func TestAResignationThatIsRefusedEndsNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", "")
		c.lead()
		term := c.Term
		for _, successor := range []string{"a", `a\n`, strings.Repeat("b", 257)} {
			c.ask(http.StatusBadRequest, http.MethodPost, c.path+"/resign", `{"stopped_term":`+number(term)+`,"successor":"`+successor+`"}`)
			c.keep()
			if c.Term != term || c.Trust == 0 {
				t.Errorf("after a refused resignation in favour of %.10q: trusted for %d ms in term %d", successor, c.Trust, c.Term)
			}
		}
	})
}

func TestAClientHandsOverToTheSuccessorThatItNames(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, l *lab) {
		a := l.campaign("a", "")
		a.lead()
		b := l.campaign("b", "")
		a.ask(http.StatusOK, http.MethodPost, a.path+"/resign", `{"stopped_term":`+number(a.Term)+`,"successor":"b"}`)
		b.lead()
	})
}

// A faulty request is not a defect of the agent, nor of its store.
func TestAnAudienceThatNoProofMayHaveIsTheClientsMistake(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, l *lab) {
		l.sign()
		c := l.campaign("a", "")
		c.lead()
		for _, audience := range []string{strings.Repeat("x", 257), "answer to " + strings.Repeat("x", 16)} {
			c.ask(http.StatusBadRequest, http.MethodPost, c.path+"/proof", `{"audience":"`+audience+`"}`)
		}
		c.ask(http.StatusOK, http.MethodPost, c.path+"/proof", `{"audience":"billing"}`)
	})
}

func TestWordOfATermThatWasNotGivenIsRefused(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", "")
		c.lead()
		term := c.Term
		c.ask(http.StatusConflict, http.MethodPost, c.path+"/resign", `{"stopped_term":`+number(term+1)+`}`)
		c.ask(http.StatusConflict, http.MethodDelete, c.path+"?stopped_term="+number(term+1), "")
		c.keep()
		if c.Term != term || c.Trust == 0 {
			t.Errorf("a refused word ended the term: %+v", c.status)
		}
		c.ask(http.StatusOK, http.MethodPost, c.path+"/resign", `{"stopped_term":`+number(term-1)+`}`)
		c.keep()
		if c.Term != term || c.Trust == 0 {
			t.Errorf("the word of an earlier term ended this one: %+v", c.status)
		}
	})
}

// A refusal is an answer, too: the agent waits for the trust that it grants.
func TestRefusalContainsHowLongTheClientMayGoOn(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		refused := func(want int, method, path, body string) (p problem) {
			t.Helper()
			if err := json.Unmarshal([]byte(l.ask(want, method, path, body)), &p); err != nil {
				t.Fatal(err)
			}
			return p
		}
		c := l.campaign("a", `,"lease_ms":10000`)
		c.lead()
		after(ttl / 2) // the trust that was granted by then is less
		one, err := l.s.find("g", c.Candidate)
		if err != nil {
			t.Fatal(err)
		}
		p := refused(http.StatusConflict, http.MethodPost, c.path+"/resign", `{"stopped_term":`+number(c.Term+1)+`}`)
		if p.Trust == nil || *p.Trust <= 0 {
			t.Fatalf("the leader gets %+v", p)
		}
		if until := time.Now().Add(time.Duration(*p.Trust) * time.Millisecond); one.work.granted.Before(until) {
			t.Errorf("the release waits %v less than the client may go on", until.Sub(one.work.granted))
		}
		follower := l.campaign("b", "")
		for path, status := range map[string]int{follower.path: http.StatusConflict, c.path + "x": http.StatusNotFound} {
			if p := refused(status, http.MethodPost, path+"/resign", "{}"); p.Trust == nil || *p.Trust != 0 {
				t.Errorf("%s: %+v", path, p)
			}
		}
		if p := refused(http.StatusNotFound, http.MethodGet, "/v1/groups/other", ""); p.Trust != nil {
			t.Errorf("what is about no candidate: %+v", p)
		}
	})
}

func TestAgentReportsThatADeadLeaderLeadsNoMore(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		record := []byte(`{"id":"gone","token":"t","ttl":3000,"term":1,"address":"host"}`)
		if _, err := l.st.CompareAndSwap(t.Context(), store.Write{Key: "g", Value: record}); err != nil {
			t.Fatal(err)
		}
		l.stored = map[string]time.Time{"g": time.Now().Add(-time.Minute)}
		const want = `{"group":"g","last_leader":"gone","term":1,"lease_left_ms":0,"reason":"expired","correlation":`
		for path, begin := range map[string]string{"/v1/groups/g": want, "/v1/groups": "[" + want} {
			if got := l.ask(http.StatusOK, http.MethodGet, path, ""); !strings.HasPrefix(got, begin) {
				t.Errorf("%s: %s", path, got)
			}
		}
	})
}

func TestAgentThatEndsWaitsForItsClients(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", `,"lease_ms":10000`)
		c.lead()
		drained := make(chan time.Time, 1)
		go func() { l.s.drain(); drained <- time.Now() }()
		after(300 * time.Millisecond)
		trusted, term := c.until, c.Term
		c.keep()
		if c.Withdrawn != draining || c.Trust != 0 || c.StoppingTerm != term {
			t.Fatalf("while the agent ends: %+v, %+v", c.status, c.times)
		}
		l.ask(http.StatusServiceUnavailable, http.MethodPost, "/v1/groups/other/candidates", `{"instance_id":"b"}`)
		l.ask(http.StatusServiceUnavailable, http.MethodGet, "/healthz", "")
		select {
		case <-drained:
			t.Fatal("it has ended while a client is trusted")
		default:
		}
		if at := <-drained; at.Before(trusted) || at.After(trusted.Add(100*time.Millisecond)) {
			t.Errorf("it ended %v after the end of the trust", at.Sub(trusted))
		}
	})
}

// The library may end a term whose OnPromote was not yet called without calling
// it, and release. So nothing was to be granted by then.
func TestNothingIsGrantedBeforeTheReleaseWaitsForIt(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		early := 0
		l.s.base.Hooks.PerElection = func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
			return leader.Hooks{Transition: func(tr leader.Transition) {
				c := l.s.byName[name{cfg.Group, cfg.InstanceID}]
				if tr.To != leader.StateLeader || !e.IsLeader() {
					return
				}
				early++
				c.mu.Lock()
				c.leaseEnd = time.Now().Add(ttl) // as after the start
				c.mu.Unlock()
				if v := c.view(true); v.Trust != 0 || v.Term != 0 {
					t.Errorf("granted before OnPromote: %+v, %+v", v, v.times)
				}
			}}
		}
		l.campaign("a", "").lead()
		if early == 0 {
			t.Error("no promotion was looked at")
		}
	})
}

func TestNothingIsGrantedOnceACandidateIsWithdrawn(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", "")
		c.lead()
		one, err := l.s.find("g", c.Candidate)
		if err != nil {
			t.Fatal(err)
		}
		one.mu.Lock()
		one.why = asked // and the stop has not started
		one.mu.Unlock()
		c.keep()
		if c.Trust != 0 || c.Lease != 0 || c.Term != 0 || c.Withdrawn != asked {
			t.Errorf("got %+v, %+v", c.status, c.times)
		}
		one.mu.Lock()
		one.why = ""
		one.mu.Unlock()
	})
}

// A client on another machine may have a clock that is slower than the agent's
// by all that both may drift.
func TestClientWithAnotherClockIsGrantedLess(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		l.s.share = (1 - leader.DefaultClockDrift) / (1 + leader.DefaultClockDrift)
		c := l.campaign("a", `,"lease_ms":1000`)
		c.lead()
		if most := int64(819); c.Trust > most || c.Trust < most-10 { // 1000 × 0.9 / 1.1
			t.Errorf("got %d ms, want %d of the 1000 that the agent waits", c.Trust, most)
		}
		one, err := l.s.find("g", c.Candidate)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(one.work.granted); left < 990*time.Millisecond {
			t.Errorf("the release waits %v", left)
		}
	})
}
