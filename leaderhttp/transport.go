package leaderhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/webbase"
	"github.com/seed-ff2cb582/leader/probe"
)

// The defaults of Options.
const (
	DefaultRetryFor = 10 * time.Second
	DefaultTries    = 40 // takes longer than DefaultRetryFor, be it through three leaders
)

// ErrNoLeader is the error for a request for which no leader was found in time.
var ErrNoLeader = errors.New("leaderhttp: no leader")

// Options are the settings of a Transport. The zero value is a good one.
type Options struct {
	// Base returns the URL under which clients reach a leader; nil if there is
	// none. Default: LeaderInfo.Address, an http or https URL, or a host with a
	// port, which is asked with the scheme of the request. The default ignores
	// an http URL for a request by https, because a record must not make a
	// client send cookies and passwords in the clear; an http URL that Base
	// returns is used.
	Base func(r *http.Request, l leader.LeaderInfo) *url.URL
	// Transport sends the requests. Nil: http.DefaultTransport.
	Transport http.RoundTripper
	// ServerName returns the name for which a leader's certificate must be good;
	// "" for the host of its address. Default: the group's name, the same for
	// all leaders, so that neither a record nor a refusal leads to a host of
	// another group. A program that may write the group's record decides on what
	// this function makes of it. ServerName needs an http.Transport as Transport,
	// of which copies are used then; a ServerName in its TLSClientConfig takes
	// precedence. A Transport of another type, or one with a DialTLSContext,
	// checks certificates by its own rules.
	ServerName func(leader.LeaderInfo) string
	// RetryFor is how long a request waits for a leader, or for another one
	// when it was not served, counted from its beginning and as far as its
	// context allows. It does not bound an attempt: after one that took longer,
	// another leader that is known by then is tried. 0 means DefaultRetryFor,
	// and a negative one that a request is sent once, and not at all where no
	// leader is known.
	RetryFor time.Duration
	// Tries is how often a request is sent at most. Default: DefaultTries.
	Tries int
	// Logger receives troubles of the observer. Nil: silent.
	Logger *slog.Logger
}

// A Transport is an http.RoundTripper that sends requests to the leader: see
// the package documentation. Its methods may be called concurrently.
type Transport struct {
	opts   Options
	mapped bool // Options.Base maps the addresses of records to others
	end    context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	now     seen
	changed chan struct{}      // closed when now changes
	dials   map[*dial]struct{} // that wait for a connection
	bound   *http.Transport    // the copy of Options.Transport that is in use, if any
	boundTo string             // the name for which it checks certificates
}

// seen is the observer's last report.
type seen struct {
	info leader.LeaderInfo
	any  bool
	err  error // of the observer, before its first report
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a transport that follows what observe yields until Close: the
// current state of one group first, then each change, as leader.Observe and
// leader.ObserveWithStore do. LeaderInfo.Group must be set: refusals of other
// groups are not believed.
func New(observe func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error], opts Options) *Transport {
	mapped := opts.Base != nil
	if !mapped {
		opts.Base = baseOf
	}
	if opts.Transport == nil {
		opts.Transport = http.DefaultTransport
	}
	if opts.ServerName == nil {
		opts.ServerName = func(l leader.LeaderInfo) string { return l.Group }
	}
	if opts.RetryFor == 0 {
		opts.RetryFor = DefaultRetryFor
	}
	if opts.Tries <= 0 {
		opts.Tries = DefaultTries
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Transport{opts: opts, mapped: mapped, end: cancel, done: make(chan struct{}), changed: make(chan struct{}), dials: map[*dial]struct{}{}}
	go func() {
		defer close(t.done)
		for info, err := range observe(ctx) {
			t.observed(info, err)
		}
	}()
	return t
}

// Close ends the observation. Requests that wait go on until they give up. The
// transport that Options name stays open.
func (t *Transport) Close() {
	t.end()
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bound != nil {
		t.bound.CloseIdleConnections()
	}
}

// baseOf is the default of Options.Base.
func baseOf(r *http.Request, l leader.LeaderInfo) *url.URL {
	u, ok := webbase.Parse(l.Address, r.URL.Scheme)
	if !ok || inTheClear(r, u) {
		return nil
	}
	return u
}

// inTheClear reports whether a request by https would go on without TLS.
func inTheClear(r *http.Request, to *url.URL) bool {
	return r.URL.Scheme == "https" && to.Scheme != "https"
}

func (t *Transport) observed(info leader.LeaderInfo, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.opts.Logger.Warn("the group cannot be observed", "group", info.Group, "error", err)
		if t.now.any {
			return // what is known stays
		}
		t.now.err = err
	case info.Reason == leader.ReasonExpired && t.now.info.ID != "":
		t.opts.Logger.Warn("the leader is silent", "group", info.Group, "term", info.Term)
		return
	default:
		t.now = seen{info: info, any: true}
		for d := range t.dials {
			d.heed(info)
		}
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *Transport) present() (seen, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, t.changed
}

// RoundTrip sends a request to the leader. Errors match ErrNoLeader, ErrGivenUp
// or ErrRedirected, or come from the request's context, or from the transport
// below. Like some errors of that transport, ErrGivenUp leaves open whether the
// request was sent.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		closeBody(r)
		return nil, fmt.Errorf("leaderhttp: unsupported protocol scheme %q", r.URL.Scheme)
	}
	name, err := nameOf(r)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	a := &attempt{t: t, r: r, name: name, until: time.Now().Add(t.opts.RetryFor)}
	if err := a.await(); err != nil {
		closeBody(r)
		return nil, err
	}
	for {
		resp, err := a.send()
		switch {
		case a.foreign(resp):
			discard(resp)
			return nil, fmt.Errorf("%w: the server that refuses is not the leader that was asked, or does not name its group", ErrRedirected)
		case !a.unserved(resp, err) || !a.replayable():
			return a.answered(resp), err
		}
		what := err
		if resp != nil {
			discard(resp)
			what = fmt.Errorf("%s answered %s", a.sent.Host, resp.Status)
		}
		if a.tries >= t.opts.Tries || a.overdue() {
			// Not the answer: a client would follow a redirect that is meant
			// for us.
			return nil, fmt.Errorf("%w that serves, after %d tries: %w", ErrNoLeader, a.tries, what)
		}
		if err := a.next(resp); err != nil {
			return nil, fmt.Errorf("%w; before, %w", err, what)
		}
	}
}

// discard makes the connection of an answer free for the next request.
func discard(resp *http.Response) {
	const most = 16 << 10 // more is not worth the reading
	_, _ = io.CopyN(io.Discard, resp.Body, most)
	_ = resp.Body.Close()
}

// The delay between attempts, if nothing is heard meanwhile. It is short at
// first with each leader, since a server refuses until it has heard of its own
// success.
const (
	firstDelay = 2 * time.Millisecond
	longest    = time.Second // what Redirect asks for by Retry-After
)

// An attempt is a request on its way to a leader.
type attempt struct {
	t     *Transport
	r     *http.Request
	name  string // of the group, for the caller: see nameOf
	until time.Time
	waits int // so far, for another try with this leader
	tries int
	out   *http.Request     // as it was sent last
	sent  *url.URL          // where it went last, nil if nowhere so far
	to    seen              // by what it was sent
	base  *url.URL          // where that leader is reached
	at    *url.URL          // where it goes next if a server has named a place
	dest  leader.LeaderInfo // the leader to which it goes, as far as is known
	// unsent: it was given up before it was sent.
	unsent bool
	// reading are the bodies of a request with trailers that may be read still.
	reading sync.WaitGroup
}

// send sends the request once.
func (a *attempt) send() (*http.Response, error) {
	if err := a.settle(); err != nil {
		return nil, err
	}
	to := a.at
	if to == nil {
		below := webbase.Below(a.base, a.r.URL)
		below.RawQuery = a.r.URL.RawQuery
		to = &below
	}
	out := a.r.Clone(context.WithValue(a.r.Context(), askedKey{}, asked{name: a.name, by: a.r.URL, leader: to.Host}))
	out.URL = to
	if a.sent != nil && a.r.GetBody != nil {
		body, err := a.r.GetBody()
		if err != nil {
			return nil, err
		}
		out.Body = body
	}
	if len(out.Trailer) > 0 && out.Body != nil && out.Body != http.NoBody {
		a.trail(out)
	}
	a.tries++
	a.out, a.sent, a.at = out, to, nil
	if out.Host == a.r.URL.Host {
		out.Host = "" // it names the group
	}
	if !a.replayable() || a.t.opts.RetryFor < 0 || a.tries == a.t.opts.Tries {
		return a.t.below(to.Scheme, a.dest).RoundTrip(out)
	}
	return a.dial(out)
}

// reached is where the leader is reached now, nil if nowhere.
func (a *attempt) reached() *url.URL {
	if a.to.info.ID == "" {
		return nil
	}
	if u := a.t.opts.Base(a.r, a.to.info); webbase.Valid(u) {
		return u
	}
	return nil
}

// overdue reports whether it is too late for another attempt. RetryFor bounds
// what is waited: another leader that is known by now is tried all the same.
func (a *attempt) overdue() bool {
	if time.Now().Before(a.until) {
		return false
	}
	now, _ := a.t.present()
	return a.t.opts.RetryFor < 0 || now.info.ID == "" || !another(now.info, a.to.info)
}

// another reports whether who leads after is not who led before, or leads by a
// later term.
func another(after, before leader.LeaderInfo) bool {
	return after.Term > before.Term || after.ID != before.ID
}

// unserved reports whether it is certain that no handler has seen the request.
func (a *attempt) unserved(resp *http.Response, err error) bool {
	if a.unsent {
		a.unsent = false
		return true
	}
	if err != nil {
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "dial" && a.r.Context().Err() == nil
	}
	switch resp.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusMisdirectedRequest, http.StatusServiceUnavailable:
		return a.refused(resp.Header)
	default:
		return false
	}
}

// refused reports whether the server that was asked refuses for its group. The
// leader's handler may have passed on the refusal of another server: one of
// another group, or of a group of the same name in another store.
func (a *attempt) refused(h http.Header) bool {
	group, by := h.Get(probe.GroupHeader), h.Get(probe.RefusedByHeader)
	return h.Get(probe.RefusalHeader) != "" && group != "" && group == a.to.info.Group &&
		(by == "" || a.t.mapped || a.dest.Address == "" || by == a.dest.Address)
}

// foreign reports whether an answer is a redirect by a server that was not
// asked. A client would follow it, with a request that a handler has seen.
func (a *attempt) foreign(resp *http.Response) bool {
	return resp != nil && resp.StatusCode == http.StatusTemporaryRedirect && resp.Header.Get(probe.RefusalHeader) != "" && !a.refused(resp.Header)
}

// replayable reports whether the request can be sent once more.
func (a *attempt) replayable() bool {
	return a.r.Body == nil || a.r.Body == http.NoBody || a.r.GetBody != nil
}

// next waits for a reason to send the request again, after an answer, nil for
// none.
func (a *attempt) next(resp *http.Response) error {
	if a.at = a.forwarded(resp); a.at != nil {
		a.dest = leader.LeaderInfo{Group: a.to.info.Group, Address: resp.Header.Get(probe.AddressHeader), Term: a.dest.Term}
		// The observer may report that term later. No election reaches a larger
		// one than MaxTerm.
		term, err := strconv.ParseUint(resp.Header.Get(probe.TermHeader), 10, 64)
		if err == nil && term <= fence.MaxTerm {
			a.dest.Term = max(a.dest.Term, term)
		}
		return nil
	}
	a.waits++
	return a.wait(backoff.Policy{Initial: firstDelay, Max: longest}.Steady(a.waits))
}

// forwarded is where the server that answered sends the request, nil for
// nowhere. A request sent under TLS must never be redirected to plain HTTP.
func (a *attempt) forwarded(resp *http.Response) *url.URL {
	if resp == nil || resp.StatusCode != http.StatusTemporaryRedirect {
		return nil
	}
	u, err := a.sent.Parse(resp.Header.Get("Location"))
	if err != nil || !webbase.Valid(u) || inTheClear(a.r, u) || a.sent.Scheme == "https" && u.Scheme != "https" {
		return nil
	}
	return u
}

// await waits until a leader is known.
func (a *attempt) await() error { return a.wait(0) }

// wait waits until a leader is known that is another than the one that the
// request was sent to, or for delay, if that is known still.
func (a *attempt) wait(delay time.Duration) error {
	before := a.to.info
	end, over := time.NewTimer(time.Until(a.until)), time.NewTimer(delay)
	defer end.Stop()
	defer over.Stop()
	waited := false
	for {
		var changed <-chan struct{}
		a.to, changed = a.t.present()
		next := another(a.to.info, before)
		if a.base = a.reached(); a.base != nil && (waited || next) {
			if next {
				a.waits = 0 // however long the last one was tried
			}
			a.dest = a.to.info
			return nil
		}
		select {
		case <-changed:
		case <-over.C:
			waited = true
		case <-end.C:
			return a.none()
		case <-a.r.Context().Done():
			return context.Cause(a.r.Context())
		}
	}
}

// none returns why there is no leader to send the request to.
func (a *attempt) none() error {
	switch {
	case a.to.err != nil:
		return fmt.Errorf("%w: %w", ErrNoLeader, a.to.err)
	case !a.to.any:
		return fmt.Errorf("%w: no record of the group was received", ErrNoLeader)
	case a.to.info.ID == "":
		return fmt.Errorf("%w: %s", ErrNoLeader, a.to.info)
	case a.base == nil:
		states := "no address of a web server"
		if u, ok := webbase.Parse(a.to.info.Address, a.r.URL.Scheme); ok && inTheClear(a.r, u) {
			states = "an address without TLS"
		}
		return fmt.Errorf("%w: %s, and states %s", ErrNoLeader, a.to.info, states)
	default:
		return fmt.Errorf("%w: %s, and does not serve", ErrNoLeader, a.to.info)
	}
}

// closeBody closes the body of a request that is not sent, as a RoundTripper
// has to.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
