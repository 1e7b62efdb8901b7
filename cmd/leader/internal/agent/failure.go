package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// A failure is an answer that is an error: see problem.
type failure struct {
	status       int
	code, detail string
	faults       []fault
	retry        time.Duration // after which another try may succeed, 0 for unknown
	trust        *int64        // as in times; nil where it is about no candidate
}

// A fault is a field that breaks a rule.
type fault struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Rule  string `json:"rule"`
}

// Error is for people.
func (f *failure) Error() string { return f.code + ": " + f.detail }

// failureOf converts an error of the library into a client's. Clients act by
// status and code, in the language of their choice; the text is for people.
// Retry-After is set where the same request may succeed without any
// intervention.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	f := &failure{status: http.StatusInternalServerError, code: "internal", detail: err.Error()}
	switch {
	case errors.Is(err, leader.ErrInvalidConfig):
		f.status, f.code, f.faults = http.StatusBadRequest, "invalid", faultsOf(err)
	case errors.Is(err, leader.ErrNotLeader):
		f.status, f.code = http.StatusConflict, "not_leader"
	case errors.Is(err, leader.ErrStopped), errors.Is(err, leader.ErrNotStarted):
		f.status, f.code = http.StatusConflict, "withdrawn"
	case errors.Is(err, leader.ErrConnectionClosed), errors.Is(err, leader.ErrPanicked):
		f.status, f.code = http.StatusServiceUnavailable, "ended"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		f.status, f.code, f.retry = http.StatusGatewayTimeout, "timeout", time.Second
	case store.Classify(err) == store.Permanent:
		f.status, f.code = http.StatusBadGateway, "store_refuses"
	case store.Classify(err) == store.Transient:
		f.status, f.code, f.retry = http.StatusServiceUnavailable, "store_unavailable", time.Second
	}
	return f
}

// A problem is a failure as RFC 9457 has it.
type problem struct {
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Code   string  `json:"code"`
	Detail string  `json:"detail"`
	Trust  *int64  `json:"trust_for_ms,omitempty"`
	Errors []fault `json:"errors,omitempty"`
}

// write answers with the failure.
func (f *failure) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if f.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.retry.Seconds())))
	}
	w.WriteHeader(f.status)
	if b, err := json.Marshal(f.problem()); err == nil {
		_, _ = w.Write(append(b, '\n')) // who has left needs no answer
	}
}

// problem is the failure in the words of the RFC.
func (f *failure) problem() problem {
	return problem{Title: http.StatusText(f.status), Status: f.status, Code: f.code, Detail: f.detail, Trust: f.trust, Errors: f.faults}
}

// about returns the failure with what the candidate's client is trusted for,
// although its request was refused: the trust that an answer would grant.
func (f *failure) about(c *candidate) *failure {
	_, _, trust := c.grant()
	told := *f
	told.trust = new(trust.Milliseconds())
	return &told
}

// faultsOf returns the broken rules that an error of the library is made of.
// The names of Go's fields mean nothing to a client: they are translated, in
// the rules as well.
func faultsOf(err error) (all []fault) {
	switch e := err.(type) { //nolint:errorlint // the tree itself is walked
	case nil:
	case *leader.ConfigError:
		// Requests have milliseconds where the library has durations.
		value := fmt.Sprint(e.Value)
		if d, ok := e.Value.(time.Duration); ok {
			value = strconv.FormatInt(d.Milliseconds(), 10)
		}
		return []fault{{inRequest(e.Field), value, goName.ReplaceAllStringFunc(e.Rule, inRequest)}}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, faultsOf(one)...)
		}
	default:
		return faultsOf(errors.Unwrap(err))
	}
	return all
}

// goName matches whatever may be the name of a field of the library's.
var goName = regexp.MustCompile(`\b[A-Z]\w+\b`)

// inRequest returns the name that requests have for a field.
func inRequest(field string) string { return cmp.Or(fieldNames()[field], field) }

// fieldNames are the library's fields under the names that requests have for
// them.
func fieldNames() map[string]string {
	return map[string]string{
		"Group": "group", "InstanceID": "instance_id", "TTL": "ttl_ms", "HeartbeatInterval": "heartbeat_interval_ms",
		"Priority": "priority", "MinTenure": "min_tenure_ms", "Version": "version", "VersionPolicy": "version_policy",
		"Address": "address", "ConnectionParams": "connection_params", "Meta": "meta", "instanceID": "successor",
	}
}
