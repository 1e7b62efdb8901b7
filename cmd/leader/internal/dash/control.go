package dash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store"
)

// controlHeader has to be on every request that changes something. A form of
// another site cannot set it, and a script of another site may not without our
// consent. It adds to the check of the request's origin.
const controlHeader = "Leader-Dash"

// maxRequest is how long a request is at most. Names have 256 bytes, reasons
// 512. Text may take several bytes of JSON for each byte.
const maxRequest = 8 << 10

// An order is what the page asks for: of a group, or of an instance. The term is
// a string, since a page's numbers are exact only up to 2^53.
type order struct {
	Op        leader.Operation `json:"op"`
	Group     string           `json:"group"`
	Term      uint64           `json:"term,string"`
	Successor string           `json:"successor"`
	Instance  string           `json:"instance"`
	Why       string           `json:"why"`
}

// The operations on an instance.
const (
	opDrain   leader.Operation = "drain"
	opUndrain leader.Operation = "undrain"
)

func (o order) ofInstance() bool { return o.Op == opDrain || o.Op == opUndrain }

// mixed reports whether an order of a group names an instance, or one of an
// instance a group.
func (o order) mixed() bool {
	if o.ofInstance() {
		return o.Group != "" || o.Term != 0 || o.Successor != ""
	}
	return o.Instance != ""
}

// An outcome is what came of it.
type outcome struct {
	Leader string  `json:"leader,omitempty"` // who leads now; nobody after a pause, and not known of an instance
	Gap    float64 `json:"gap_ms"`
	Error  string  `json:"error,omitempty"`
}

// steer puts a request to a group, and answers when it has had its effect. An
// order to an instance is answered when it is stored: the page shows the groups
// that follow.
//
// The request is logged first, with the visitor's address: it reaches the
// candidates in the name of --by alone, and the user who started the command
// must be able to find who pressed the button. A visitor who leaves ends the
// wait; a request that is stored by then remains.
func (s *server) steer(w http.ResponseWriter, r *http.Request) {
	o, refusal, code := s.order(w, r)
	if refusal != "" {
		answer(w, code, outcome{Error: refusal})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.session.Timeout)
	defer cancel()
	if o.ofInstance() {
		s.say(fmt.Sprintf("%s asks for %s of instance %q: %q", r.RemoteAddr, o.Op, o.Instance, o.Why))
		if err := s.drain(ctx, o); err != nil {
			s.say(fmt.Sprintf("%s of instance %q: %s", o.Op, o.Instance, app.Words(err)))
			answer(w, statusOf(err), outcome{Error: app.Words(err)})
			return
		}
		answer(w, http.StatusOK, outcome{})
		return
	}
	s.say(fmt.Sprintf("%s asks for %s of %q, term %d, to %q: %q", r.RemoteAddr, o.Op, o.Group, o.Term, o.Successor, o.Why))
	h, err := s.control.Ask(ctx, leader.Request{Op: o.Op, Group: o.Group, Term: o.Term, Successor: o.Successor, Why: o.Why})
	if err != nil {
		s.say(fmt.Sprintf("%s of %q: %s", o.Op, o.Group, app.Words(err)))
		answer(w, statusOf(err), outcome{Leader: h.To.ID, Error: app.Words(err)})
		return
	}
	answer(w, http.StatusOK, outcome{Leader: h.To.ID, Gap: float64(h.Gap.Microseconds()) / 1e3})
}

// drain stores an order to an instance, or withdraws it.
func (s *server) drain(ctx context.Context, o order) error {
	if o.Op == opUndrain {
		return s.control.Undrain(ctx, o.Instance)
	}
	return s.control.Drain(ctx, o.Instance, o.Why)
}

// order reads the request, or returns why it is refused and with which status.
//
// Header and type are looked at before the body, so that a form of another site
// has nothing read. Fields that are not known are refused: a page of an older
// version must not have half of its request obeyed. The term is demanded where
// a leader is to leave, since the visitor saw that one, and another may lead by
// now.
func (s *server) order(w http.ResponseWriter, r *http.Request) (o order, refusal string, code int) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // what is none is not JSON either
	switch {
	case s.control == nil:
		return o, "this page only shows: it was started without --allow-control", http.StatusForbidden
	case r.Header.Get(controlHeader) == "":
		return o, "the header " + controlHeader + " is missing", http.StatusForbidden
	case kind != "application/json":
		return o, "the request must be application/json", http.StatusUnsupportedMediaType
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(slowBody)) // an error shows when reading
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	dec.DisallowUnknownFields()
	err := dec.Decode(&o)
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // else it would end the request's context
	switch {
	case err != nil:
		return o, "the request cannot be read: " + err.Error(), http.StatusBadRequest
	case o.mixed():
		return o, "op " + string(o.Op) + ": drain and undrain name an instance alone, the others a group", http.StatusBadRequest
	case o.Op == leader.OpPause, o.Op == leader.OpResume, o.ofInstance():
	case o.Op != leader.OpStepDown && o.Op != leader.OpTransfer:
		return o, "op must be step-down, transfer, pause, resume, drain or undrain", http.StatusBadRequest
	case o.Term == 0:
		return o, "term is required: the number of the term to end", http.StatusBadRequest
	}
	return o, "", 0
}

// statusOf is the status for a request that was not done. A 4xx status is for
// the visitor, who may look and press again; a 5xx status is the command's own
// trouble: its rights, or no effect in time.
func statusOf(err error) int {
	switch {
	case errors.Is(err, leader.ErrInvalidConfig):
		return http.StatusBadRequest
	case errors.Is(err, leader.ErrNoLeader), errors.Is(err, leader.ErrTermOver), errors.Is(err, leader.ErrNotSuccessor):
		return http.StatusConflict
	case store.Classify(err) == store.Permanent:
		return http.StatusBadGateway // our own rights, not the visitor's
	default:
		return http.StatusGatewayTimeout
	}
}

// answer sends a value, as the page expects also of an error.
func answer[T outcome | roll](w http.ResponseWriter, code int, value T) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // who has left needs no answer
}

const (
	// maxCandidates is how many candidates of a group are shown.
	maxCandidates = 100
	// maxRolls is how many roll calls may be under way: each has all candidates
	// of a group answer.
	maxRolls = 8
)

// A roll is who answered a roll call.
type roll struct {
	Candidates []candidate `json:"candidates"`
	More       int         `json:"more,omitempty"`  // how many more answered
	Error      string      `json:"error,omitempty"` // why others may be missing
	// Members are what the members of a quorum, if the store is one, hold of the
	// group.
	Members []app.Member `json:"members,omitempty"`
}

// A candidate is one that answered.
type candidate struct {
	ID         string `json:"id"`
	State      string `json:"state"`
	Since      int64  `json:"since,omitempty"`  // by its own clock
	Barred     string `json:"barred,omitempty"` // why it does not campaign, in words
	Leader     string `json:"leader,omitempty"` // the leader that it follows
	Term       uint64 `json:"term,string"`
	Lag        int64  `json:"lag"` // age of the latest renewal that it sent or heard of
	Version    string `json:"version,omitempty"`
	Priority   int    `json:"priority,omitempty"`
	Address    string `json:"address,omitempty"`
	Connection string `json:"connection,omitempty"`
	Error      string `json:"error,omitempty"`
}

// barred describes why a candidate does not campaign.
func (s *server) barred(c rollcall.Candidate) string {
	if c.Barred == leader.ReasonDrained {
		return s.board.DrainWords(c.Instance)
	}
	return string(c.Barred)
}

// candidates asks a group for its candidates. A group without an answer is not
// an error: not every candidate answers.
//
// A roll call is a message to all candidates, of which a visitor could ask for
// any number. So what is too much is refused at once, and not queued: by its
// turn the page would have asked again.
func (s *server) candidates(w http.ResponseWriter, r *http.Request) {
	select {
	case s.rolls <- struct{}{}:
		defer func() { <-s.rolls }()
	default:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusServiceUnavailable, roll{Error: "too many roll calls at once", Candidates: []candidate{}})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.session.Timeout)
	defer cancel()
	group := r.URL.Query().Get("group")
	all, err := s.session.RollCall(ctx, group)
	members, unknown := app.Members(ctx, s.store, group)
	found := roll{Candidates: make([]candidate, 0, min(len(all), maxCandidates)), More: max(0, len(all)-maxCandidates), Members: members}
	for _, c := range all[:min(len(all), maxCandidates)] {
		found.Candidates = append(found.Candidates, candidate{
			ID: c.Instance, State: c.State, Since: unix(c.Since), Barred: s.barred(c), Leader: c.Leader, Term: c.Term, Lag: c.Lag,
			Version: c.Version, Priority: c.Priority, Address: c.Address, Connection: c.Connection, Error: c.Error,
		})
	}
	if err := errors.Join(err, unknown); err != nil {
		found.Error = app.Words(err)
	}
	answer(w, http.StatusOK, found)
}
