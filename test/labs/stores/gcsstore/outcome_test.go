package gcsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestAWriteWhoseAnswerIsLostIsUnknownAndSentOnce(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	var writes atomic.Int64
	counted := func(rt http.RoundTripper) http.RoundTripper { return counting{rt, &writes} }
	trial.LostAnswers(t, trial.Way{
		Addr: srv.Addr,
		Open: func(tb testing.TB, addr string) store.Store {
			return over(tb, service(tb, addr, counted), gcsstore.Options{})
		},
		Writes: writes.Load,
	})
}

// counting counts the writes that it is given.
type counting struct {
	http.RoundTripper
	writes *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		c.writes.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// What Cloud Storage says when one object is written more often than once a
// second, and what a gateway says before it: the emulator says none of it.
func TestWhatIsSaidOfAWriteIsTakenForNoMore(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	g := &trial.Gateway{Method: http.MethodPost, Body: worded}
	c := service(t, srv.Addr, func(rt http.RoundTripper) http.RoundTripper {
		g.Server = rt
		return g
	})
	g.Answers(t, over(t, c, gcsstore.Options{}),
		trial.Answer{Status: http.StatusConflict, Code: "conflict", Want: store.Transient},
		trial.Answer{Status: http.StatusTooManyRequests, Code: "rateLimitExceeded", Want: store.Transient},
		trial.Answer{Status: http.StatusTooManyRequests, Want: store.Transient},
		trial.Answer{Status: http.StatusBadRequest, Code: "invalid", Want: store.Permanent},
		trial.Answer{Status: http.StatusUnauthorized, Code: "authError", Want: store.Permanent},
		trial.Answer{Status: http.StatusForbidden, Code: "forbidden", Want: store.Permanent},
		trial.Answer{Status: http.StatusRequestTimeout, Code: "uploadBrokenConnection", Applied: true, Want: store.Unknown},
		trial.Answer{Status: 499, Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusInternalServerError, Code: "backendError", Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusBadGateway, Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusServiceUnavailable, Code: "backendError", Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusServiceUnavailable, Want: store.Unknown},
		trial.Answer{Status: http.StatusGatewayTimeout, Applied: true, Want: store.Unknown},
	)
}

// worded is an answer in the words of the JSON API.
func worded(a trial.Answer) (contentType, text string) {
	return "application/json; charset=UTF-8", fmt.Sprintf(`{"error":{"code":%d,"message":%[2]q,"errors":[{"domain":"global","reason":%[2]q,"message":%[2]q}]}}`, a.Status, a.Code)
}

func TestAWriteToAFrozenServerIsUnknownAndMayLandLater(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	trial.Frozen(t, at(t, srv.Addr, ""), srv, false)
}

func TestWhatNeverLeftIsTransient(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	s := at(t, srv.Addr, "")
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	write := store.Write{Key: "a", Expected: rev, Value: []byte("w")}

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.CompareAndSwap(done, write)
	trial.Outcome(t, err, store.Transient)

	// All connections of the client are in use: the only one is a read's whose
	// answer is held.
	p := natslab.NewProxy(t, srv.Addr)
	busy := over(t, service(t, p.Addr(), func(rt http.RoundTripper) http.RoundTripper {
		rt.(*http.Transport).MaxConnsPerHost = 1 //nolint:errcheck,forcetypeassert // service made it
		return rt
	}), gcsstore.Options{})
	trial.Get(t, busy, "a") // so that the record is known, and the write needs no read
	p.Hold(natslab.ToClient)
	reading, abandon := context.WithCancel(t.Context())
	sent := make(chan struct{})
	var read sync.WaitGroup
	read.Go(func() {
		once := sync.OnceFunc(func() { close(sent) }) // a client may repeat a read
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { once() }}
		_, _ = busy.Get(httptrace.WithClientTrace(reading, trace), "b") // it has no answer
	})
	<-sent
	_, err = busy.CompareAndSwap(trial.Brief(t), write)
	abandon()
	read.Wait()
	p.Resume()
	trial.Outcome(t, err, store.Transient)

	// The server is gone, and refuses connections. A write on one of before is
	// of unknown outcome, until its end is noticed a moment later.
	srv.Kill()
	trial.NotSent(t, s, write)
	_, err = s.Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Transient)
}

// A client that does not tell of its connections is not believed to have sent
// nothing.
func TestWithoutAnyWordOfTheClientTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	s := over(t, service(t, srv.Addr, func(rt http.RoundTripper) http.RoundTripper { return silent{rt} }), gcsstore.Options{})
	rev := trial.Must(t, s, store.Write{Key: "a"})
	srv.Kill()
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Unknown)
}

// silent takes no notice of what its caller wants to be told.
type silent struct{ http.RoundTripper }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.RoundTripper.RoundTrip(r.WithContext(context.Background()))
}

func TestAWriteOverADeletedRecordIsAConflict(t *testing.T) {
	t.Parallel()
	srv, c := made(t)
	s := at(t, srv.Addr, "")
	rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	if err := (operator{t, c}).remove(s.Name("a")); err != nil {
		t.Fatal(err)
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Conflict)
	if again := trial.Must(t, s, store.Write{Key: "a"}); again <= rev {
		t.Errorf("revision %d follows %d", again, rev)
	}
}

func TestAClosedStoreLeavesTheUsersClient(t *testing.T) {
	t.Parallel()
	_, c := made(t)
	s := over(t, c, gcsstore.Options{})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	trial.SaysClosed(t, s)
	if err := (operator{t, c}).put("other", []byte("v")); err != nil {
		t.Errorf("a store closed the client that it was given: %v", err)
	}
}

func TestInvalidKeysAndValuesAreRefusedWithoutTheServer(t *testing.T) {
	t.Parallel()
	s := at(t, "127.0.0.1:1", "") // nobody listens there
	for _, w := range []store.Write{{Key: ""}, {Key: "a b"}, {Key: "a", Value: make([]byte, gcsstore.MaxValue+1)}} {
		if _, err := s.CompareAndSwap(trial.Within(t), w); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key %q with %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(trial.Within(t), "a b"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a read: %v", err)
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: 1 << 63})
	trial.Outcome(t, err, store.Conflict)
}
