package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

const ttl = 3 * time.Second

func config(group, id string) leader.ElectionConfig {
	return leader.ElectionConfig{
		Group: group, InstanceID: id, Address: "http://" + id + ":8080", TTL: ttl, HeartbeatInterval: time.Second, DeleteOnStop: true,
	}
}

// candidate returns a candidate that was not started.
func candidate(t *testing.T, st store.Store, cfg leader.ElectionConfig) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}

func start(t *testing.T, st store.Store, id string) leader.Election {
	t.Helper()
	e := candidate(t, st, config("g", id))
	launch(t, e)
	return e
}

func launch(t *testing.T, e leader.Election) {
	t.Helper()
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, http.NoBody))
	return w
}

// mustAnswer asks and demands a status and a text.
func mustAnswer(t *testing.T, h http.Handler, target string, status int, text string) {
	t.Helper()
	r := ask(h, http.MethodGet, target)
	if got := r.Body.String(); r.Code != status || !strings.Contains(got, text) {
		t.Errorf("%s: %d %s, want %d %s", target, r.Code, got, status, text)
	}
	if r.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s may be cached: %v", target, r.Header())
	}
}

func TestReadinessFollowsStartAndStopAndNotLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		start(t, st, "a")
		b := candidate(t, st, config("g", "b"))
		h := probe.Handler(b, probe.Options{})
		mustAnswer(t, h, "/readyz", 503, "not started")
		mustAnswer(t, h, "/livez", 200, "ok")
		launch(t, b)
		if b.IsLeader() {
			t.Fatal("b leads")
		}
		mustAnswer(t, h, "/readyz", 200, "ok")
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		mustAnswer(t, h, "/readyz", 503, "stopped")
		mustAnswer(t, h, "/livez", 200, "ok") // a restart would not repair it
	})
}

func TestReadinessEndsWhenTheStopBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := candidate(t, memstore.New(), config("g", "a"))
		e.OnDemote(func() { time.Sleep(time.Second) })
		launch(t, e)
		go e.Stop() //nolint:errcheck // its error is judged elsewhere
		synctest.Wait()
		mustAnswer(t, probe.Handler(e, probe.Options{}), "/readyz", 503, "stopped")
	})
}

func TestReadinessHasAConditionOfTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cold error
		h := probe.Handler(start(t, memstore.New(), "a"), probe.Options{Ready: func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the condition may take for ever")
			}
			return cold
		}})
		mustAnswer(t, h, "/readyz", 200, "ok")
		cold = errors.New("cache is cold")
		mustAnswer(t, h, "/readyz", 503, "cache is cold")
		mustAnswer(t, h, "/livez", 200, "ok")
	})
}

// A stuck election takes the whole window.
func TestReadinessAsksTheProgramBesideTheElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 2 * time.Second
		stuck := make(chan struct{})
		defer close(stuck)
		cfg := config("g", "a")
		cfg.Hooks.Transition = func(tr leader.Transition) {
			if tr.Event == leader.EventPromoted {
				<-stuck
			}
		}
		e := candidate(t, memstore.New(), cfg)
		launch(t, e)
		h := probe.Handler(e, probe.Options{Window: window, Ready: func(ctx context.Context) error {
			select {
			case <-time.After(window - time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		begun := time.Now()
		mustAnswer(t, h, "/readyz", 200, "ok")
		if took := time.Since(begun); took > window {
			t.Errorf("after %v", took)
		}
		h = probe.Handler(e, probe.Options{Window: window, Ready: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		begun = time.Now()
		mustAnswer(t, h, "/readyz", 503, "no answer within 2s")
		if took := time.Since(begun); took != window {
			t.Errorf("after %v", took)
		}
	})
}

func TestLivenessFailsWhileTheLoopIsStuckAndNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		cfg := config("g", "a")
		cfg.Hooks.Transition = func(tr leader.Transition) {
			if tr.Event == leader.EventPromoted {
				<-stuck
			}
		}
		e := candidate(t, memstore.New(), cfg)
		launch(t, e)
		h := probe.HandlerOf(both(e, start(t, memstore.New(), "b")), probe.Options{Window: 2 * time.Second})
		begun := time.Now()
		mustAnswer(t, h, "/livez", 503, "first: context deadline exceeded\nno answer within 2s")
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("after %v", took)
		}
		mustAnswer(t, h, "/readyz", 200, "ok") // that is what liveness is for
		close(stuck)
		mustAnswer(t, h, "/livez", 200, "ok")
	})
}

func both(first, second leader.Election) func() map[string]leader.Election {
	return func() map[string]leader.Election { return map[string]leader.Election{"first": first, "second": second} }
}

func TestLivenessOutlastsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := faultstore.New(faultstore.Options{})
		t.Cleanup(net.Close)
		h := probe.Handler(start(t, net.Client("a"), "a"), probe.Options{})
		net.Partition("a")
		time.Sleep(10 * ttl)
		mustAnswer(t, h, "/livez", 200, "ok")
		mustAnswer(t, h, "/readyz", 200, "ok")
		mustAnswer(t, h, "/leader", 503, `"leading":false`)
	})
}

func TestLeaderAnswersOKAndTheOthersSayWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, "a"), start(t, st, "b")
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for e, status := range map[leader.Election]int{a: 200, b: 503} {
				r := ask(probe.Handler(e, probe.Options{}), method, "/leader")
				if r.Code != status || r.Header().Get(probe.AddressHeader) != "http://a:8080" ||
					r.Header().Get(probe.TermHeader) != strconv.FormatUint(a.Term().Number, 10) {
					t.Errorf("%s: %d %v", method, r.Code, r.Header())
				}
				if method == http.MethodHead {
					continue
				}
				var l probe.Leader
				if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
					t.Fatal(err)
				}
				want := probe.Leader{Group: "g", Leading: status == 200, ID: "a", Address: "http://a:8080", Term: a.Term().Number}
				if l != want {
					t.Errorf("%+v", l)
				}
			}
		}
	})
}

func TestVacancyIsPrintedWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, "a")
		if err := a.Pause(t.Context(), "upgrade"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r := ask(probe.Handler(start(t, st, "b"), probe.Options{}), http.MethodGet, "/leader")
		if text := r.Body.String(); r.Code != http.StatusServiceUnavailable || r.Header().Get(probe.AddressHeader) != "" ||
			!strings.Contains(text, `"reason":"paused","by":"a","why":"upgrade"`) {
			t.Errorf("%d %v %s", r.Code, r.Header(), text)
		}
	})
}

func TestLeaderWhoseWindowClosedIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		defer close(stuck)
		cfg := config("g", "a")
		cfg.Hooks.Transition = func(tr leader.Transition) {
			if tr.Event == leader.EventPromoted {
				<-stuck // nobody renews
			}
		}
		e := candidate(t, memstore.New(), cfg)
		launch(t, e)
		h := probe.Handler(e, probe.Options{})
		mustAnswer(t, h, "/leader", 200, `"leading":true`)
		time.Sleep(ttl)
		mustAnswer(t, h, "/leader", 503, `"leading":false`)
	})
}

func TestManyElectionsAreAskedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		start(t, st, "a")
		h := probe.HandlerOf(both(start(t, st, "b"), start(t, memstore.New(), "c")), probe.Options{})
		mustAnswer(t, h, "/leader?group=first", 503, `"id":"a"`)
		mustAnswer(t, h, "/leader?group=second", 200, `"id":"c"`)
		mustAnswer(t, h, "/leader?group=third", 404, "no such group")
		mustAnswer(t, h, "/leader", 400, "first, second")
		one := probe.Handler(start(t, memstore.New(), "d"), probe.Options{})
		mustAnswer(t, one, "/leader?group=g", 200, `"id":"d"`)
		mustAnswer(t, one, "/leader?group=h", 404, "no such group")
		none := probe.HandlerOf(func() map[string]leader.Election { return nil }, probe.Options{})
		mustAnswer(t, none, "/readyz", 200, "ok")
		mustAnswer(t, none, "/leader", 400, "name a group")
	})
}

func TestHandlerServesUnderAnyPrefixAndReadsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := probe.Handler(start(t, memstore.New(), "a"), probe.Options{})
		mux := http.NewServeMux()
		mux.Handle("/internal/probes/", h)
		mux.Handle("/stripped/", http.StripPrefix("/stripped", h))
		for _, target := range []string{"/internal/probes/livez", "/internal/probes/leader", "/stripped/readyz"} {
			mustAnswer(t, mux, target, 200, "")
		}
		mustAnswer(t, mux, "/stripped/other", 404, "")
		r := ask(h, http.MethodPost, "/leader")
		if r.Code != http.StatusMethodNotAllowed || r.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%d %v", r.Code, r.Header())
		}
	})
}

// An address comes from a record, and a writer of the record must not be able
// to write headers, too.
func TestHostileAddressReachesNoHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		cfg := config("g", "a")
		cfg.Address = "http://a\r\nSet-Cookie: x=y"
		launch(t, candidate(t, st, cfg))
		b := start(t, st, "b")
		r := ask(probe.Handler(b, probe.Options{}), http.MethodGet, "/leader")
		if r.Code != http.StatusServiceUnavailable || r.Header().Get(probe.AddressHeader) != "" || r.Header().Get("Set-Cookie") != "" {
			t.Errorf("%d %v", r.Code, r.Header())
		}
		r = ask(probe.Redirect(b, http.NotFoundHandler(), probe.RedirectOptions{}), http.MethodGet, "/")
		if r.Code != http.StatusServiceUnavailable || r.Header().Get("Location") != "" {
			t.Errorf("%d %v", r.Code, r.Header())
		}
	})
}

// A fickle election panics when it is asked.
type fickle struct{ leader.Election }

func (fickle) Alive(context.Context) error { panic("boom") }

// An over is an election that has ended by itself.
type over struct {
	leader.Election
	why error
}

func (o over) Alive(context.Context) error { return fmt.Errorf("%w: %w", leader.ErrStopped, o.why) }

// A restart repairs what has ended by itself, and not what was stopped on
// purpose.
func TestLivenessFailsWhenAnElectionHasEndedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, why := range []error{leader.ErrPanicked, leader.ErrConnectionClosed} {
			h := probe.Handler(over{candidate(t, memstore.New(), config("g", "a")), why}, probe.Options{})
			if w := ask(h, http.MethodGet, "/livez"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), why.Error()) {
				t.Errorf("%v: %d %s", why, w.Code, w.Body)
			}
		}
	})
}

// The elections may have another implementation, and are asked in our
// goroutines.
func TestAnElectionThatPanicsWhenAskedIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := probe.Handler(fickle{candidate(t, memstore.New(), config("g", "a"))}, probe.Options{})
		if w := ask(h, http.MethodGet, "/livez"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "boom") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// A role may be removed between the look at the manager's roles and the look at
// its election. Kubernetes then saw a dead process, and /leader panicked.
func TestAnElectionThatIsGoneIsLeftOut(t *testing.T) {
	h := probe.HandlerOf(func() map[string]leader.Election { return map[string]leader.Election{"gone": nil} }, probe.Options{})
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusOK, "/leader?group=gone": http.StatusNotFound, "/leader": http.StatusBadRequest,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
