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
	"github.com/seed-ff2cb582/leader/store/base"
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

// denial reports whether the text denies a right to a token, or rejects the
// token.
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
func (c *client) writeError(ctx context.Context, w store.Write, a *attempt, err error) error {
	kind := class(err)
	switch {
	case a.never():
		return fmt.Errorf("%w: key %q: not sent: %w", store.ErrTransient, w.Key, base.Because(ctx, err))
	case kind == nil:
		return fmt.Errorf("%w: key %q: %w", store.ErrUnknown, w.Key, base.Because(ctx, err))
	case a.repeated():
		return fmt.Errorf("%w: key %q: the client's transport has sent it %d times: %w", store.ErrUnknown, w.Key, a.written.Load(), err)
	case errors.Is(kind, store.ErrConflict):
		return fmt.Errorf("%w: key %q: expected revision %d", kind, w.Key, w.Expected)
	default:
		return fmt.Errorf("%w: key %q: %w%s", kind, w.Key, err, c.advice(err, w.Key))
	}
}

// readError classifies a failed call that changes nothing.
func (c *client) readError(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	kind := class(err)
	switch {
	case kind == nil && (errors.Is(err, errFiltered) || denial(err.Error())): // of a transaction, whose status the client hides
		kind = store.ErrPermanent
	case kind == nil:
		kind = store.ErrTransient
	}
	return fmt.Errorf("%w: %s: %w", kind, what, base.Because(ctx, err))
}

// advice returns the remedy for a refusal.
func (c *client) advice(err error, key string) string {
	var answer api.StatusError
	switch {
	case !errors.As(err, &answer):
		return ""
	case answer.Code == http.StatusRequestEntityTooLarge:
		return ": raise the agent's limits.txn_max_req_len"
	case denial(answer.Body):
		return fmt.Sprintf(`: give the token a policy with key %q { policy = "write" }`, c.names.of(key))
	default:
		return ""
	}
}
