package s3store_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The answers of S3 when requests for one object meet, or are too many, and of
// a gateway in front of it: versitygw gives none of them. S3's manual asks the
// client to repeat after a 409, so it is not a conflict: nothing was compared.
func TestAnswersToAWriteAreNotOverrated(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	g := &trial.Gateway{Method: http.MethodPut, Body: func(a trial.Answer) (contentType, text string) {
		return "application/xml", "<Error><Code>" + a.Code + "</Code><Message>" + http.StatusText(a.Status) + "</Message></Error>"
	}}
	c := client(t, srv.Addr, root(), func(o *s3.Options) {
		of := o.HTTPClient.(*http.Client) //nolint:errcheck,forcetypeassert // client made it
		g.Server, of.Transport = of.Transport, g
	})
	g.Answers(t, over(t, c, s3store.Options{}),
		trial.Answer{Status: http.StatusConflict, Code: "ConditionalRequestConflict", Want: store.Transient},
		trial.Answer{Status: http.StatusConflict, Code: "OperationAborted", Want: store.Transient},
		trial.Answer{Status: http.StatusTooManyRequests, Code: "TooManyRequests", Want: store.Transient},
		trial.Answer{Status: http.StatusTooManyRequests, Want: store.Transient},
		trial.Answer{Status: http.StatusServiceUnavailable, Code: "SlowDown", Want: store.Transient},
		trial.Answer{Status: http.StatusTemporaryRedirect, Code: "TemporaryRedirect", Want: store.Transient},
		trial.Answer{Status: http.StatusForbidden, Code: "RequestTimeTooSkewed", Want: store.Transient},
		trial.Answer{Status: http.StatusBadRequest, Code: "ExpiredToken", Want: store.Transient},
		trial.Answer{Status: http.StatusBadRequest, Code: "TokenRefreshRequired", Want: store.Transient},
		trial.Answer{Status: http.StatusMovedPermanently, Code: "PermanentRedirect", Want: store.Permanent},
		trial.Answer{Status: http.StatusForbidden, Code: "AccessDenied", Want: store.Permanent},
		trial.Answer{Status: http.StatusNotImplemented, Code: "NotImplemented", Want: store.Permanent},
		trial.Answer{Status: http.StatusRequestTimeout, Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusBadRequest, Code: "RequestTimeout", Want: store.Unknown},
		trial.Answer{Status: http.StatusBadRequest, Code: "IncompleteBody", Want: store.Unknown},
		trial.Answer{Status: 499, Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusInternalServerError, Code: "InternalError", Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusBadGateway, Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Applied: true, Want: store.Unknown},
		trial.Answer{Status: http.StatusServiceUnavailable, Want: store.Unknown},
		trial.Answer{Status: http.StatusGatewayTimeout, Applied: true, Want: store.Unknown},
	)
}

func TestAWriteWithoutAConnectionOrCredentialsIsTransient(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	rev := trial.Must(t, at(t, srv.Addr, ""), store.Write{Key: "a", Value: []byte("v")})
	write := store.Write{Key: "a", Expected: rev, Value: []byte("w")}

	// All connections of the client are in use: the only one is a read's whose
	// answer is held.
	p := natslab.NewRelay(t, srv.Addr)
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	busy := over(t, client(t, p.Addr(), root(), func(o *s3.Options) { o.HTTPClient = &http.Client{Transport: transport} }), s3store.Options{})
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

	// No credentials are available.
	nobody := over(t, client(t, srv.Addr, root(), func(o *s3.Options) { o.Credentials = none{} }), s3store.Options{})
	_, err = nobody.CompareAndSwap(trial.Within(t), write)
	trial.Outcome(t, err, store.Transient)
}

// none has no credentials.
type none struct{}

func (none) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{}, errors.New("no credentials")
}

// If a client does not report its connections, the store must not conclude that
// it sent nothing.
func TestWithoutAnyWordOfTheClientTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	s := over(t, client(t, srv.Addr, root(), func(o *s3.Options) { o.HTTPClient = silent{o.HTTPClient} }), s3store.Options{})
	rev := trial.Must(t, s, store.Write{Key: "a"})
	srv.Kill()
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
	trial.Outcome(t, err, store.Unknown)
}

// silent is a client that ignores the trace that its caller has set.
type silent struct{ s3.HTTPClient }

func (c silent) Do(r *http.Request) (*http.Response, error) {
	return c.HTTPClient.Do(r.WithContext(context.Background()))
}

// versitygw 1.8.0 answers a read beside a write with the ETag of before and the
// content of after, now and then.
func TestAReadThatIsTornIsReadAgain(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	tears := &tearing{}
	s := over(t, client(t, srv.Addr, root(), func(o *s3.Options) { tears.HTTPClient = o.HTTPClient; o.HTTPClient = tears }), s3store.Options{})
	other := at(t, srv.Addr, "")
	first := trial.Must(t, other, store.Write{Key: "a", Value: []byte("first")})
	trial.Get(t, s, "a")
	second := trial.Must(t, other, store.Write{Key: "a", Expected: first, Value: []byte("second")})
	tears.next = true
	if e := trial.Get(t, s, "a"); e.Revision != second || tears.next {
		t.Fatalf("it reads %+v", e)
	}
	trial.Must(t, s, store.Write{Key: "a", Expected: second, Value: []byte("third")})
}

// tearing is a client whose next answer to a read has the ETag of the one
// before.
type tearing struct {
	s3.HTTPClient
	before string
	next   bool
}

func (c *tearing) Do(r *http.Request) (*http.Response, error) {
	res, err := c.HTTPClient.Do(r)
	if err != nil || r.Method != http.MethodGet {
		return res, err
	}
	before := c.before
	c.before = res.Header.Get("ETag")
	if c.next {
		c.next = false
		res.Header.Set("ETag", before)
	}
	return res, err
}
