package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// Errors of this package, for errors.Is. Errors that come from a store also
// match the sentinels of package store, which class them: ErrConflict,
// ErrTransient, ErrPermanent, ErrUnknown.
var (
	// ErrInvalidConfig: the configuration, or what a method was given, breaks a
	// rule. The error lists every broken rule, each as a *ConfigError.
	ErrInvalidConfig = leadership.ErrInvalid
	// ErrAlreadyStarted: Start was called before. An Election is started once.
	ErrAlreadyStarted = engine.ErrAlreadyStarted
	// ErrNotStarted: Start was not called yet.
	ErrNotStarted = engine.ErrNotStarted
	// ErrStopped: the election has been stopped.
	ErrStopped = engine.ErrStopped
	// ErrNotLeader: the call needs a leader, and this candidate is none (any
	// more).
	ErrNotLeader = engine.ErrNotLeader
	// ErrStopTimeout: the time for a stop ran out. The record was left to
	// expire; what of the caller's own callbacks still runs cannot be ended
	// from outside.
	ErrStopTimeout = engine.ErrStopTimeout
	// ErrDemoteTimeout: OnPromote or OnDemote did not return within
	// DemoteTimeout after the term had ended.
	ErrDemoteTimeout = engine.ErrDemoteTimeout
	// ErrPanicked: code of this library panicked, which ended the election. Its
	// trust window was closed at once, its work stopped, and the record left to
	// expire. The error names the panic; the Logger and Hooks.Note were given
	// the stack.
	ErrPanicked = engine.ErrPanicked
	// ErrConnectionClosed: the connection to the store is permanently closed,
	// by the program or because it has given up reconnecting. An election, a
	// RoleManager and an observation end with it. It is store.ErrClosed under a
	// name of this package, so that errors of all calls to the store match it,
	// too. nats.go closes a connection by itself after two minutes without a
	// server, unless it was given nats.MaxReconnects(-1), and when its
	// credentials are refused twice, unless nats.IgnoreAuthErrorAbort.
	ErrConnectionClosed = store.ErrClosed
)

// A ConfigError is one broken rule of a configuration, or of what a method was
// given. It matches ErrInvalidConfig.
type ConfigError struct {
	// Field is the name of the field, as in Go: "RetryConfig.Jitter".
	Field string
	// Value is what was given.
	Value any
	// Rule is what the field has to satisfy, as a phrase: "must be at least …".
	Rule string
}

// Error names the field, the value and the rule.
func (e *ConfigError) Error() string {
	if s, ok := e.Value.(string); ok {
		return fmt.Sprintf("%s %q %s", e.Field, s, e.Rule)
	}
	return fmt.Sprintf("%s %v %s", e.Field, e.Value, e.Rule)
}

// Is reports whether target is ErrInvalidConfig, which each ConfigError
// matches.
func (e *ConfigError) Is(target error) bool { return target == ErrInvalidConfig }

// A LossError is the cause (context.Cause) of the end of a term's context.
type LossError struct {
	// Term is the term that ended.
	Term Term
	// Reason is why the term ended.
	Reason Reason
}

// Error names the term that ended and the reason.
func (e *LossError) Error() string {
	return fmt.Sprintf("leader: term %d ended: %s", e.Term.Number, e.Reason)
}

// Is reports whether target is ErrNotLeader, which each LossError matches.
func (e *LossError) Is(target error) bool { return target == ErrNotLeader }

// lossOf is the cause of the end of a term's context.
func lossOf(t leadership.Term, r machine.Reason) error {
	return &LossError{Term: Term(t), Reason: Reason(r)}
}

// A validator collects broken rules.
type validator struct{ errs []error }

func (v *validator) check(ok bool, field string, value any, rule string) {
	if !ok {
		v.errs = append(v.errs, &ConfigError{Field: field, Value: value, Rule: rule})
	}
}

func (v *validator) notNegative(field string, d time.Duration) {
	v.check(d >= 0, field, d, "must not be negative")
}

func (v *validator) err() error {
	if len(v.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrInvalidConfig, errors.Join(v.errs...))
}

// tooLong shows a text in the place of one that is too long to show.
func tooLong(text string) string { return fmt.Sprintf("(%d bytes)", len(text)) }
