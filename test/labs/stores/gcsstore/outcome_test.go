package gcsstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The answers of Cloud Storage to an object that is written more often than
// once a second, and of a gateway in front of it. The emulator gives none of
// these answers.
func TestAnswersToAWriteAreNotOverrated(t *testing.T) {
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

func TestAWriteForWhichNoConnectionIsFreeIsTransient(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	rev := trial.Must(t, at(t, srv.Addr, ""), store.Write{Key: "a", Value: []byte("v")})
	write := store.Write{Key: "a", Expected: rev, Value: []byte("w")}

	// All connections of the client are in use: the only one is a read's whose
	// answer is held.
	p := natslab.NewRelay(t, srv.Addr)
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
	_, err := busy.CompareAndSwap(trial.Brief(t), write)
	abandon()
	read.Wait()
	p.Resume()
	trial.Outcome(t, err, store.Transient)
}

// If a client does not report its connections, the store must not conclude that
// it sent nothing.
func TestWithoutAnyWordOfTheClientTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	s := over(t, service(t, srv.Addr, func(rt http.RoundTripper) http.RoundTripper { return silent{rt} }), gcsstore.Options{})
	rev := trial.Must(t, s, store.Write{Key: "a"})
	srv.Kill()
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Unknown)
}

// silent ignores the trace that its caller has set.
type silent struct{ http.RoundTripper }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.RoundTripper.RoundTrip(r.WithContext(context.Background()))
}
