package probe

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/internal/webbase"
)

// TermParam is the query parameter with which [Redirect] marks where a client
// has been sent: the number of the term.
const TermParam = "leader-term"

// Headers of an answer that [Redirect] gives in place of the handler, so that
// clients know that no handler has seen the request.
const (
	// RefusalHeader has the reason: one of the constants below. Redirect removes
	// it from a handler's own answer, which the handler may have got from another
	// server. A handler that has done nothing calls [Refuse].
	RefusalHeader = "Leader-Refusal"
	// GroupHeader is the name of this instance's group. A client of another
	// group takes the refusal for a handler's answer.
	GroupHeader = "Leader-Group"
	// RefusedByHeader is the ElectionConfig.Address of this instance, if it has
	// one. A client that went to another address takes the answer for one of a
	// handler there: groups in different stores may have one name.
	RefusedByHeader = "Leader-Refused-By"
)

// The values of RefusalHeader.
const (
	RefusalElsewhere = "elsewhere"  // 307: another instance leads
	RefusalNoLeader  = "no-leader"  // 503: nobody leads, as far as is known
	RefusalNoAddress = "no-address" // 503: the leader has no address that clients could be sent to
	RefusalNotLater  = "not-later"  // 503: the client comes from a term after which no leader is known
)

// RedirectOptions are the settings of Redirect. The zero value is a good one.
type RedirectOptions struct {
	// Local, optional, selects requests that any candidate may serve: reads
	// that may be stale, probes.
	Local func(*http.Request) bool
	// Base, optional, returns the URL under which clients reach a leader, for
	// addresses that are not what they should use; nil if there is none. By
	// default it is LeaderInfo.Address: an http or https URL, or a host with a
	// port, which is asked with the scheme of the request.
	Base func(r *http.Request, l leader.LeaderInfo) *url.URL
}

// Redirect serves requests by next on the leader, and sends them there (307,
// which keeps method and body) from everywhere else. Where no leader is known,
// the answer is 503 with Retry-After. Both are marked by [RefusalHeader]. A
// client of package leaderhttp goes to the leader by itself, and follows them
// safely. The handler's own answers carry no such mark: see RefusalHeader.
//
// No client is sent in circles: the address to which it is sent carries the
// leader's term ([TermParam], taken off again before next is called), and an
// instance that gets it sends the client on only to the leader of a later term.
// As terms grow, that ends.
//
// A leader may be deposed while next runs. Guard acts that must not happen then
// by Election.Do or by the term, not here.
func Redirect(e leader.Election, next http.Handler, opts RedirectOptions) http.Handler {
	if opts.Base == nil {
		opts.Base = baseOf
	}
	return &redirect{e: e, next: next, opts: opts}
}

type redirect struct {
	e    leader.Election
	next http.Handler
	opts RedirectOptions
}

func (h *redirect) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, sent := cutTerm(r.URL.RawQuery)
	if h.e.IsLeader() || h.opts.Local != nil && h.opts.Local(r) {
		h.guard(w, unmarked(r, query))
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	info := present(r.Context(), h.e)
	base := h.target(r, info)
	switch {
	case info.ID == "":
		h.unavailable(w, info.Group, RefusalNoLeader, "nobody leads")
	case base == nil:
		h.unavailable(w, info.Group, RefusalNoAddress, "the leader has no address")
	case info.Term <= sent:
		h.unavailable(w, info.Group, RefusalNotLater, fmt.Sprintf("no leader is known after term %d", sent))
	default:
		announce(w.Header(), Leader{ID: info.ID, Address: info.Address, Term: info.Term})
		h.mark(w.Header(), info.Group, RefusalElsewhere)
		w.Header().Set("Location", location(base, r, query, info.Term))
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

func (h *redirect) target(r *http.Request, info leader.LeaderInfo) *url.URL {
	if info.ID == "" {
		return nil
	}
	base := h.opts.Base(r, info)
	if !webbase.Valid(base) {
		return nil
	}
	return base
}

// mark marks a refusal.
func (h *redirect) mark(header http.Header, group, refusal string) {
	header.Set(RefusalHeader, refusal)
	header.Set(GroupHeader, group)
	if address := h.e.Status().Address; printable(address) {
		header.Set(RefusedByHeader, address)
	}
}

func (h *redirect) unavailable(w http.ResponseWriter, group, refusal, why string) {
	h.mark(w.Header(), group, refusal)
	unavailable(w, why)
}

func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// baseOf is the default of RedirectOptions.Base.
func baseOf(r *http.Request, l leader.LeaderInfo) *url.URL {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	u, _ := webbase.Parse(l.Address, scheme)
	return u
}

// location is where the request goes on: below the base's path, with its own
// query and the term.
func location(base *url.URL, r *http.Request, query string, term uint64) string {
	to := webbase.Below(base, r.URL)
	to.RawQuery = TermParam + "=" + strconv.FormatUint(term, 10)
	if query != "" {
		to.RawQuery = query + "&" + to.RawQuery
	}
	return to.String()
}

// unmarked returns the request as it was before it was sent here.
func unmarked(r *http.Request, query string) *http.Request {
	if query == r.URL.RawQuery {
		return r
	}
	u := *r.URL
	u.RawQuery = query
	plain := *r
	plain.URL = &u
	// It is cut by itself, since the URL may lack a prefix that was stripped.
	if path, marked, found := strings.Cut(r.RequestURI, "?"); found {
		plain.RequestURI = path
		if rest, _ := cutTerm(marked); rest != "" {
			plain.RequestURI += "?" + rest
		}
	}
	return &plain
}

// cutTerm takes the marks out of a query, and returns the highest term. A mark
// that is not a number, or that no election reaches, counts as none.
func cutTerm(raw string) (query string, term uint64) {
	if !strings.Contains(raw, TermParam+"=") {
		return raw, 0
	}
	var rest []string
	for part := range strings.SplitSeq(raw, "&") {
		value, marked := strings.CutPrefix(part, TermParam+"=")
		if !marked {
			rest = append(rest, part)
			continue
		}
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && n <= fence.MaxTerm {
			term = max(term, n)
		}
	}
	return strings.Join(rest, "&"), term
}
