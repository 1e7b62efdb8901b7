package agent

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store"
)

//go:embed openapi.yaml
var openapi []byte

// A server answers requests.
type server struct {
	registry

	gate    gate
	st      app.Registers // for those who observe
	judge   func(context.Context, []leader.LeaderInfo) []app.Standing
	base    leader.ElectionConfig
	profile leader.Profile
	key     *proof.Key    // nil: no proofs are made
	timeout time.Duration // of a look at the store
	streams chan struct{} // bounds how many there are
	log     *slog.Logger
}

// A route is one method of one path.
type route struct {
	method, path string
	serve        func(http.ResponseWriter, *http.Request) error
	open         bool // it needs no token
}

// routes are all of them: openapi.yaml describes each.
func (s *server) routes() []route {
	const (
		groups     = "/v1/groups"
		one        = groups + "/{group}"
		candidates = one + "/candidates"
		each       = candidates + "/{candidate}"
	)
	return []route{
		{http.MethodGet, "/healthz", s.health, true},
		{http.MethodGet, "/openapi.yaml", s.describe, true},
		{http.MethodGet, groups, s.list, false},
		{http.MethodGet, one, s.look, false},
		{http.MethodGet, one + "/watch", s.watch, false},
		{http.MethodPost, candidates, s.campaign, false},
		{http.MethodGet, each, s.with(s.status), false},
		{http.MethodDelete, each, s.with(s.withdraw), false},
		{http.MethodGet, each + "/events", s.with(s.events), false},
		{http.MethodPost, each + "/keepalive", s.with(s.keepalive), false},
		{http.MethodPost, each + "/resign", s.with(s.resign), false},
		{http.MethodPost, each + "/proof", s.with(s.prove), false},
	}
}

// handler serves the routes, and refuses all else. Each route has its own gate,
// since two of them need no token.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	add := func(pattern string, r route) { mux.Handle(pattern, s.gate.guard(s.answering(r.serve), r.open)) }
	for _, r := range s.routes() {
		add(r.method+" "+r.path, r)
	}
	// The mux would answer in plain text, and without the gate.
	add("/", route{serve: func(_ http.ResponseWriter, r *http.Request) error {
		s.count.refuse("no_route")
		return &failure{status: http.StatusNotFound, code: "no_route", detail: fmt.Sprintf("there is no %s of this path: see /openapi.yaml", r.Method)}
	}})
	return mux
}

// answering makes a problem of an error. A panic is one, too, and ends nothing
// else. It is logged by its pattern and not by its path, which is a secret of
// the client that asked.
func (s *server) answering(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if value := recover(); value != nil {
				s.log.Error("a request panicked", "route", r.Pattern, "group", r.PathValue("group"), "panic", value, "stack", string(debug.Stack()))
				(&failure{status: http.StatusInternalServerError, code: "internal", detail: "a defect of the agent, which its log describes"}).write(w)
			}
		}()
		if err := serve(w, r); err != nil {
			failureOf(err).write(w)
		}
	})
}

// with finds the candidate that a path names.
func (s *server) with(serve func(http.ResponseWriter, *http.Request, *candidate) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.find(r.PathValue("group"), r.PathValue("candidate"))
		if err != nil {
			return err
		}
		if err := serve(w, r, c); err != nil {
			return failureOf(err).about(c)
		}
		return nil
	}
}

// answer sends a value. It is made before anything is sent, so that an error
// can still be one.
func answer(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", jsonMedia)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // who has left needs no answer
	return nil
}

// health reports that the agent runs, and whether it takes candidates.
func (s *server) health(w http.ResponseWriter, _ *http.Request) error {
	if s.draining() {
		return errDraining()
	}
	return answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// describe serves the description of the interface.
func (s *server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openapi) // who has left needs no answer
	return nil
}

// campaign starts a candidate.
func (s *server) campaign(w http.ResponseWriter, r *http.Request) error {
	var want wish
	if err := read(w, r, &want); err != nil {
		return err
	}
	cfg, lease, err := want.config(r.PathValue("group"), s.base, s.profile)
	if err != nil {
		return err
	}
	// Elections of many clients log to one place.
	cfg.Logger = s.log.With(app.Of, cfg.Group+" as "+cfg.InstanceID)
	c, err := s.add(r.Context(), cfg, lease)
	if err != nil {
		return err
	}
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+c.handle)
	return answer(w, http.StatusCreated, c.view(true))
}

// status answers as a keepalive does, without being one: looking at a candidate
// must not keep it alive when its client is gone.
func (s *server) status(w http.ResponseWriter, _ *http.Request, c *candidate) error {
	return answer(w, http.StatusOK, c.view(true))
}

// keepalive renews the client's lease. The client of a withdrawn candidate
// learns of that, and may still report that its work has stopped.
func (s *server) keepalive(w http.ResponseWriter, r *http.Request, c *candidate) error {
	if err := read(w, r, &struct{}{}); err != nil {
		return err
	}
	c.keep()
	return answer(w, http.StatusOK, c.view(true))
}

// A farewell is the body of a resignation.
type farewell struct {
	StoppedTerm *uint64 `json:"stopped_term"`
	Successor   string  `json:"successor"`
}

// resign ends the present term, or takes in that the work of one that has ended
// is done. Without that word the record is released when the client's trust has
// run out.
//
// It counts as a keepalive: a client that resigns lives, and remains a
// candidate. If a stopped term is named, only that term ends: the next may have
// started already, and the client has not reported anything about it.
func (s *server) resign(w http.ResponseWriter, r *http.Request, c *candidate) error {
	var f farewell
	if err := read(w, r, &f); err != nil {
		return err
	}
	c.keep()
	// Before the client's word is taken: the agent would lead on for one that
	// has stopped.
	if err := c.mayFollow(f.Successor); err != nil {
		return err
	}
	runs := c.e.IsLeader()
	if f.StoppedTerm != nil {
		if err := c.acknowledge(*f.StoppedTerm); err != nil {
			return err
		}
		runs = runs && c.present(*f.StoppedTerm)
	} else if !runs {
		return leader.ErrNotLeader
	}
	if runs {
		if err := leave(r.Context(), c.e, f.Successor); err != nil {
			return err
		}
	}
	return answer(w, http.StatusOK, c.view(true))
}

// mayFollow returns why nobody can be handed the leadership by that name, as
// Election.Transfer does; nil for no name.
func (c *candidate) mayFollow(successor string) error {
	// Only the name remains to be checked: any times are valid.
	other := leader.ElectionConfig{Group: c.group, InstanceID: successor, TTL: time.Minute, HeartbeatInterval: 10 * time.Second}
	if successor == "" || successor != c.id && other.Validate() == nil {
		return nil
	}
	return &leader.ConfigError{Field: "instanceID", Value: successor, Rule: "must be the InstanceID of another candidate"}
}

// leave ends the current term. If it has ended meanwhile, that is not an error.
func leave(ctx context.Context, e leader.Election, successor string) (err error) {
	if successor != "" {
		err = e.Transfer(ctx, successor)
	} else {
		err = e.Resign(ctx)
	}
	if errors.Is(err, leader.ErrNotLeader) || errors.Is(err, leader.ErrStopped) {
		return nil
	}
	return err
}

// withdraw takes the candidate out of the election, and returns when it has
// released. A client that leaves ends the wait alone.
func (s *server) withdraw(w http.ResponseWriter, r *http.Request, c *candidate) error {
	if text := r.URL.Query().Get("stopped_term"); text != "" {
		term, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return invalid("the term cannot be read", fault{"stopped_term", text, "must be the number of a term"})
		}
		if err := c.acknowledge(term); err != nil {
			return err
		}
	}
	// After the client's word, so that the release has nothing left to wait
	// for.
	c.withdraw(asked)
	select {
	case <-c.gone:
		w.WriteHeader(http.StatusNoContent)
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// A proofWish is the body of a request for a proof.
type proofWish struct {
	Audience   string `json:"audience"`
	LifetimeMS int64  `json:"lifetime_ms"`
}

// prove makes a proof that the candidate leads.
func (s *server) prove(w http.ResponseWriter, r *http.Request, c *candidate) error {
	var want proofWish
	if err := read(w, r, &want); err != nil {
		return err
	}
	if s.key == nil {
		return &failure{status: http.StatusNotImplemented, code: "no_key", detail: "the agent has no key to sign proofs with (--proof-key)"}
	}
	lifetime := proof.DefaultLifetime
	if want.LifetimeMS != 0 {
		lifetime = millis(want.LifetimeMS)
	}
	if lifetime <= 0 {
		return invalid("the lifetime is none", fault{"lifetime_ms", strconv.FormatInt(want.LifetimeMS, 10), "must be positive"})
	}
	made, err := c.sign(*s.key, want.Audience, lifetime)
	if errors.Is(err, proof.ErrInvalid) { // all but the audience was validated before
		rule := strings.TrimPrefix(err.Error(), proof.ErrInvalid.Error()+": ")
		return invalid("no proof is for such an audience", fault{"audience", fmt.Sprintf("%.256s", want.Audience), rule})
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, made)
}

// list answers with who leads each group that the pattern matches.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	pattern := r.URL.Query().Get("pattern")
	if pattern == "" {
		pattern = ">"
	}
	infos, err := s.snapshot(r.Context(), pattern)
	if err != nil {
		return err
	}
	all, now := make([]group, 0, len(infos)), time.Now()
	for _, i := range infos {
		// As leader ls: what an operator marked as gone is not what a client
		// looks for.
		if i.Reason != leader.ReasonForgotten {
			all = append(all, standing(i, now))
		}
	}
	return answer(w, http.StatusOK, all)
}

// look answers with who leads one group.
func (s *server) look(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("group")
	if !store.ValidKey(name) {
		return badGroup(name)
	}
	infos, err := s.snapshot(r.Context(), name)
	if err != nil {
		return err
	}
	for _, i := range infos {
		// The snapshot of a name has an entry also for a group that never was.
		if i.ID != "" || i.Reason != leader.ReasonAbsent {
			return answer(w, http.StatusOK, standing(i, time.Now()))
		}
	}
	return &failure{status: http.StatusNotFound, code: "no_group", detail: fmt.Sprintf("the store knows nothing of the group %q", name)}
}

// snapshot asks the store, for no longer than --timeout.
func (s *server) snapshot(ctx context.Context, pattern string) ([]app.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	infos, err := leader.SnapshotWithStore(ctx, s.st, pattern)
	if err != nil {
		return nil, err
	}
	return s.judge(ctx, infos), nil
}

// badGroup is the failure for what no group can be called.
func badGroup(name string) error {
	return invalid("this is not the name of a group", fault{"group", name, "must be 1 to 256 letters, digits or -_=/. without a dot at an end or two in a row"})
}
