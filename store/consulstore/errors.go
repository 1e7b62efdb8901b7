package consulstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
)

// refusal reports whether servers and agents refuse a request in these words
// for certain, before anything of it is in the log of Raft
// (agent/structs/errors.go, agent/consul/rate/handler.go, hashicorp/raft
// api.go, hashicorp/go-connlimit). Raft's "leadership lost while committing
// log" and "raft is already shutdown" are not among these: such a write may be
// applied by the next leader.
func refusal(text string) bool {
	return says(text,
		"No cluster leader",
		"No known Consul servers",
		"Raft leader not found in server lookup mapping",
		"node is not the leader",
		"timed out enqueuing operation",
		"RPC rate limit exceeded",
		"Your IP is issuing too many concurrent connections",
		"rate limit exceeded, try again later or against a different server",
		"rate limit exceeded for operation that can only be performed by the leader, try again later",
	)
}

// denial reports whether the text says that a token may not do something, or is
// none.
func denial(text string) bool {
	return says(text, "Permission denied", "ACL not found", "lacks permission")
}

func says(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// class is the class of an answer by which Consul refuses a request for
// certain. It is nil for every other error.
func class(err error) error {
	var answer api.StatusError
	if !errors.As(err, &answer) {
		return nil
	}
	switch answer.Code {
	case http.StatusConflict:
		return refusedTransaction(answer.Body)
	case http.StatusForbidden:
		return store.ErrPermanent
	case http.StatusRequestEntityTooLarge:
		return store.ErrInvalid
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		return store.ErrPermanent
	case http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		// A gateway between may use these, too, and know less.
		if refusal(answer.Body) {
			return store.ErrTransient
		}
	}
	return nil
}

// refusedTransaction is the class of a transaction that was rolled back: its
// answer lists why. It is nil for an answer that is none of Consul's.
func refusedTransaction(body string) error {
	var answer api.TxnResponse
	if json.Unmarshal([]byte(body), &answer) != nil || len(answer.Errors) == 0 || answer.Errors[0] == nil {
		return nil //nolint:nilerr // which is its class
	}
	switch what := answer.Errors[0].What; {
	case strings.HasSuffix(what, "index is stale"):
		return store.ErrConflict
	case denial(what):
		return store.ErrPermanent
	default:
		return store.ErrTransient
	}
}

// writeError classifies a failed write.
func (s *Store) writeError(ctx context.Context, w store.Write, a *attempt, err error) error {
	c := class(err)
	switch {
	case a.never() && s.open() != nil:
		return fmt.Errorf("%w: key %q: %w", store.ErrClosed, w.Key, err)
	case a.never():
		return fmt.Errorf("%w: key %q: not sent: %w", store.ErrTransient, w.Key, explained(ctx, err))
	case c == nil:
		return fmt.Errorf("%w: key %q: %w", store.ErrUnknown, w.Key, explained(ctx, err))
	case a.repeated():
		return fmt.Errorf("%w: key %q: the client's transport has sent it %d times: %w", store.ErrUnknown, w.Key, a.written.Load(), err)
	case errors.Is(c, store.ErrConflict):
		return fmt.Errorf("%w: key %q: expected revision %d", c, w.Key, w.Expected)
	default:
		return fmt.Errorf("%w: key %q: %w%s", c, w.Key, err, s.advice(err, w.Key))
	}
}

// readError classifies a failed call that changes nothing.
func (s *Store) readError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	c := class(err)
	switch {
	case s.open() != nil:
		c = store.ErrClosed
	case c == nil && (errors.Is(err, errFiltered) || denial(err.Error())): // of a transaction, whose status the client hides
		c = store.ErrPermanent
	case c == nil:
		c = store.ErrTransient
	}
	return fmt.Errorf("%w: %s: %w", c, what, explained(ctx, err))
}

// advice says what a person can do about a refusal.
func (s *Store) advice(err error, key string) string {
	var answer api.StatusError
	switch {
	case !errors.As(err, &answer):
		return ""
	case answer.Code == http.StatusRequestEntityTooLarge:
		return ": raise the agent's limits.txn_max_req_len"
	case denial(answer.Body):
		return fmt.Sprintf(`: give the token a policy with key %q { policy = "write" }`, s.names.of(key))
	default:
		return ""
	}
}

// explained adds why the context ended, which net/http does not tell.
func explained(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
