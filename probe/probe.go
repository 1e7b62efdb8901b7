package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// DefaultWindow is how long an election may take to answer by default.
const DefaultWindow = time.Second

// Headers of the answers of /leader and of [Redirect].
const (
	// AddressHeader is the leader's ElectionConfig.Address.
	AddressHeader = "Leader-Address"
	// TermHeader is the number of the leader's term.
	TermHeader = "Leader-Term"
)

// Options are the settings of a handler. The zero value is a good one.
type Options struct {
	// Window is how long an election's goroutine may take to answer before
	// /livez fails. It should be less than the caller's own timeout, and of the
	// order of a heartbeat. Default: DefaultWindow.
	Window time.Duration
	// Ready, optional, is a further condition of /readyz: a connection, a cache
	// that is warm. It is asked beside the elections, and its context ends after
	// Window: if it heeds that, an answer takes no longer. An error is shown in
	// the answer.
	Ready func(ctx context.Context) error
}

// Handler serves the probes of one election.
func Handler(e leader.Election, opts Options) http.Handler {
	return newHandler(opts, func() map[string]leader.Election { return map[string]leader.Election{"": e} })
}

// HandlerOf serves the probes of many elections at once, as the function
// returns them by name at each request: the elections of a leader.RoleManager,
// for example, or of a sidecar. /livez and /readyz require all of them to pass,
// and /leader?group=NAME asks for one. A nil election is left out: a role may
// be removed while the map is made.
func HandlerOf(elections func() map[string]leader.Election, opts Options) http.Handler {
	return newHandler(opts, func() map[string]leader.Election {
		all := maps.Clone(elections())
		maps.DeleteFunc(all, func(_ string, e leader.Election) bool { return e == nil })
		return all
	})
}

func newHandler(opts Options, elections func() map[string]leader.Election) http.Handler {
	if opts.Window <= 0 {
		opts.Window = DefaultWindow
	}
	return &handler{opts: opts, elections: elections}
}

type handler struct {
	opts      Options
	elections func() map[string]leader.Election
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	serve := map[string]http.HandlerFunc{"livez": h.livez, "readyz": h.readyz, "leader": h.leader}[path.Base(r.URL.Path)]
	switch {
	case serve == nil:
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	default:
		ctx, cancel := context.WithTimeout(r.Context(), h.opts.Window)
		defer cancel()
		serve(w, r.WithContext(ctx))
	}
}

// livez fails for an election whose goroutine does not answer, and for an
// election that has ended by itself: it takes part no more. A restart repairs
// both. A restart does not repair an election that was not started, or was
// stopped on purpose.
func (h *handler) livez(w http.ResponseWriter, r *http.Request) {
	h.judge(w, r, func(err error) error {
		asked := errors.Is(err, leader.ErrNotStarted) || errors.Is(err, leader.ErrStopped)
		if asked && !errors.Is(err, leader.ErrPanicked) && !errors.Is(err, leader.ErrConnectionClosed) {
			return nil
		}
		return err
	}, nil)
}

func (h *handler) readyz(w http.ResponseWriter, r *http.Request) {
	h.judge(w, r, func(err error) error {
		if errors.Is(err, leader.ErrNotStarted) || errors.Is(err, leader.ErrStopped) {
			return err
		}
		return nil
	}, h.opts.Ready)
}

// judge answers 200 if what Alive returns passes for every election, and the
// further condition holds. That is asked meanwhile, since an election that is
// stuck takes the whole window.
func (h *handler) judge(w http.ResponseWriter, r *http.Request, passes func(error) error, further func(context.Context) error) {
	verdicts := h.askAll(r.Context(), passes)
	var unmet error
	if further != nil {
		unmet = further(r.Context())
	}
	faults := verdicts()
	if unmet != nil {
		faults = append(faults, unmet.Error())
	}
	if r.Context().Err() != nil && len(faults) > 0 {
		faults = append(faults, fmt.Sprintf("no answer within %v", h.opts.Window))
	}
	text(w, faults)
}

// askAll asks all elections at the same time. The returned function waits for
// their faults.
func (h *handler) askAll(ctx context.Context, passes func(error) error) (faults func() []string) {
	elections := h.elections()
	names := slices.Sorted(maps.Keys(elections))
	verdicts := make([]chan error, len(names))
	for i, name := range names {
		verdicts[i] = make(chan error, 1)
		go ask(ctx, elections[name], passes, verdicts[i])
	}
	return func() (faults []string) {
		for i, name := range names {
			if err := <-verdicts[i]; err != nil {
				faults = append(faults, strings.TrimPrefix(name+": ", ": ")+err.Error())
			}
		}
		return faults
	}
}

// ask asks one election. The election may be of another's making, and passes is
// the program's: a panic is a fault.
func ask(ctx context.Context, e leader.Election, passes func(error) error, verdict chan<- error) {
	var err error
	defer func() { verdict <- err }() // even if runtime.Goexit ends this goroutine
	shield.Call(func() { err = passes(e.Alive(ctx)) }, func(value any, _ []byte) {
		err = fmt.Errorf("it panicked when it was asked: %v", shield.Value(value))
	})
}

func text(w http.ResponseWriter, faults []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(faults) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, strings.Join(faults, "\n"))
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// Leader is the JSON body of /leader.
type Leader struct {
	// Group is the group's name.
	Group string `json:"group"`
	// Leading reports that the leader itself answers: it is true where the
	// status is 200.
	Leading bool `json:"leading"`
	// ID and Address are the leader's, as far as known; empty if nobody leads.
	ID      string `json:"id,omitempty"`
	Address string `json:"address,omitempty"`
	// Term is the number of its term; of the last one if nobody leads.
	Term uint64 `json:"term,omitempty"`
	// Reason, By and Why explain why nobody leads, if nobody does.
	Reason leader.Reason `json:"reason,omitempty"`
	By     string        `json:"by,omitempty"`
	Why    string        `json:"why,omitempty"`
}

func (h *handler) leader(w http.ResponseWriter, r *http.Request) {
	elections := h.elections()
	e, ok := pick(r.Context(), elections, r.URL.Query().Get("group"))
	switch {
	case !ok && !r.URL.Query().Has("group"):
		http.Error(w, "name a group: ?group=NAME, one of "+strings.Join(slices.Sorted(maps.Keys(elections)), ", "), http.StatusBadRequest)
		return
	case !ok:
		http.Error(w, "no such group", http.StatusNotFound)
		return
	}
	l := leaderOf(r.Context(), e)
	announce(w.Header(), l)
	w.Header().Set("Content-Type", "application/json")
	if !l.Leading {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(l) //nolint:errchkjson // of strings and numbers; and an error would have no receiver
}

// pick finds an election by its name in the map, or by its group if it is the
// only one, which needs no name either.
func pick(ctx context.Context, elections map[string]leader.Election, name string) (leader.Election, bool) {
	if e, ok := elections[name]; ok {
		return e, true
	}
	for _, e := range elections {
		return e, len(elections) == 1 && (name == "" || present(ctx, e).Group == name)
	}
	return nil, false
}

// leaderOf returns who leads. Leading comes from Term, since that goes by the
// trust window.
func leaderOf(ctx context.Context, e leader.Election) Leader {
	info, term := present(ctx, e), e.Term()
	return Leader{
		Group: info.Group, ID: info.ID, Address: info.Address, Term: info.Term,
		Reason: info.Reason, By: info.By, Why: info.Why, Leading: !term.IsZero() && term.Number == info.Term,
	}
}

// present returns who leads as the election sees it.
func present(ctx context.Context, e leader.Election) (info leader.LeaderInfo) {
	for info = range e.Observe(ctx) {
		break
	}
	return info
}

// announce puts the leader into the headers. An address comes from a record
// that another program wrote.
func announce(h http.Header, l Leader) {
	if l.ID == "" {
		return
	}
	h.Set(TermHeader, strconv.FormatUint(l.Term, 10))
	if printable(l.Address) {
		h.Set(AddressHeader, l.Address)
	}
}

// printable reports whether a header can contain an address.
func printable(address string) bool {
	return address != "" && !strings.ContainsFunc(address, func(r rune) bool { return r < ' ' || r > '~' })
}
