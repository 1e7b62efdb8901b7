package proof

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

// The defaults of VerifierOptions.
const (
	// DefaultSkew is by how much clocks may differ.
	DefaultSkew = 100 * time.Millisecond
	// DefaultMaxLifetime is the longest lease that package leader believes.
	DefaultMaxLifetime = time.Hour
)

// Errors of verifiers, for errors.Is. In addition there is fence.ErrStale, for
// a term older than one that was accepted. The errors never show the proof.
var (
	// ErrNoProof: nothing was shown.
	ErrNoProof = errors.New("proof: missing")
	// ErrInvalid: it is malformed or forged, or of another group or audience.
	ErrInvalid = errors.New("proof: invalid")
	// ErrExpired: it was good, and its time is over. A leader would show a new
	// one.
	ErrExpired = errors.New("proof: expired")
	// ErrNotYet: it was signed later than it is here. The clocks differ by more
	// than Skew.
	ErrNotYet = errors.New("proof: signed in the future")
)

// VerifierOptions are the settings of a verifier. The zero value is a good one
// where clocks are synchronized, and proofs are for everyone.
type VerifierOptions struct {
	// Audience is the name that proofs must be for. Without, they must be for
	// everyone.
	Audience string
	// Skew is by how much the clocks of the signer and of this verifier may
	// differ. It takes from the time of each proof and never adds to it: one is
	// refused when its end is nearer than Skew. Thus it must be less than the
	// trust window, TTL × (1 − ClockDrift), less HeartbeatInterval. Default:
	// DefaultSkew. Negative: none.
	Skew time.Duration
	// MaxLifetime is the longest time from signing to end that is believed: a
	// proof without an end that anyone will see is none. Default:
	// DefaultMaxLifetime.
	MaxLifetime time.Duration
	// Gate remembers the largest term. A gate that persists its mark continues
	// after a restart, and a gate that is shared with package httpfence guards
	// one resource against both. Default: a new one, in memory.
	Gate *fence.Gate
}

// A Verifier judges the proofs of one group, without any connection. All
// methods may be called concurrently.
type Verifier struct {
	group  string
	opts   VerifierOptions
	keys   atomic.Pointer[KeySet]
	parser *jwt.Parser
}

// NewVerifier returns a verifier for a group with these keys. Errors match
// ErrInvalid or ErrKey.
func NewVerifier(group string, keys KeySet, opts VerifierOptions) (*Verifier, error) {
	switch {
	case opts.Skew == 0:
		opts.Skew = DefaultSkew
	case opts.Skew < 0:
		opts.Skew = 0
	}
	if opts.MaxLifetime == 0 {
		opts.MaxLifetime = DefaultMaxLifetime
	}
	if opts.Gate == nil {
		opts.Gate = new(fence.Gate)
	}
	switch {
	case !store.ValidKey(group):
		return nil, fmt.Errorf("%w: %.100q is not the name of a group", ErrInvalid, group)
	case opts.Audience != "" && !validName(opts.Audience):
		return nil, fmt.Errorf("%w: an audience has 1 to %d bytes of UTF-8", ErrInvalid, maxName)
	case reserved(opts.Audience):
		return nil, fmt.Errorf("%w: an audience must not begin with %q", ErrInvalid, answerTo)
	case opts.MaxLifetime < 0:
		return nil, fmt.Errorf("%w: MaxLifetime %v: must not be negative", ErrInvalid, opts.MaxLifetime)
	}
	v := &Verifier{group: group, opts: opts, parser: jwt.NewParser(
		// judge validates the claims.
		jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation(),
	)}
	if err := v.SetKeys(keys); err != nil {
		return nil, err
	}
	return v, nil
}

// SetKeys replaces the key set. See [KeySet] for how keys are replaced. An
// empty set is an error that matches ErrKey, and changes nothing.
func (v *Verifier) SetKeys(keys KeySet) error {
	if len(keys.keys) == 0 {
		return fmt.Errorf("%w: the key set is empty", ErrKey)
	}
	v.keys.Store(&keys)
	return nil
}

// Group returns the group whose proofs it judges.
func (v *Verifier) Group() string { return v.group }

// Last returns the mark of the latest term that was accepted.
func (v *Verifier) Last() fence.Mark { return v.opts.Gate.Last() }

// Verify judges a proof by itself: its signer, its audience, and whether its
// time is now. It neither reads nor changes the largest term: see Accept.
//
// Errors match ErrNoProof, ErrInvalid, ErrExpired or ErrNotYet, and come with
// no statement.
func (v *Verifier) Verify(proof string) (Statement, error) {
	return v.verify(proof, v.opts.Audience)
}

func (v *Verifier) verify(proof, audience string) (Statement, error) {
	s, err := v.open(proof)
	if err == nil {
		err = v.judge(s, audience, time.Now())
	}
	if err != nil {
		return Statement{}, err
	}
	return s, nil
}

// Accept judges a proof as Verify does, and then as the gate does: a term that
// is smaller than the largest accepted, or of the same number and not the same,
// is refused with fence.ErrStale, whatever its time. It does not wait for acts
// that were accepted earlier and still run: see fence.Gate.Accept.
func (v *Verifier) Accept(ctx context.Context, proof string) (Statement, error) {
	s, err := v.Verify(proof)
	if err == nil {
		err = v.opts.Gate.AcceptMark(NewContext(ctx, s), s.Mark())
	}
	if err != nil {
		return Statement{}, err
	}
	return s, nil
}

// Enter accepts a proof and lets the caller act in its term until it calls
// leave, which it must, once or more. The work context carries the statement
// (FromContext), and ends when a newer term arrives; that waits until the older
// one's acts have left. A proof that expires while it waits is refused. See
// fence.Gate.Enter.
func (v *Verifier) Enter(ctx context.Context, proof string) (work context.Context, leave func(), err error) {
	s, err := v.Verify(proof)
	if err != nil {
		return ctx, func() {}, err
	}
	work, leave, err = v.opts.Gate.EnterMark(NewContext(ctx, s), s.Mark())
	if err != nil {
		return ctx, func() {}, err
	}
	if err := v.judge(s, v.opts.Audience, time.Now()); err != nil {
		leave()
		return ctx, func() {}, err
	}
	return work, leave, nil
}

// Vet is a fence.Gate.Vet that demands a proof of each new term: it returns nil
// for the term of a statement that was accepted for ctx (FromContext) and is of
// this verifier's group, and ErrNoProof otherwise.
//
// So a resource to which leaders state their terms (packages httpfence and
// leadergrpc) takes a new term only from a call that also shows a proof of it.
// From then on the term's token is enough:
//
//	gate := &fence.Gate{Vet: verifier.Vet, Persist: …}
//	guarded := httpfence.Require("reports", gate.Enter)(reports)
//	http.Handle("/reports/", guarded)
//	http.Handle("/reports/term", httpproof.Require(verifier)(guarded)) // first in each term
func (v *Verifier) Vet(ctx context.Context, m fence.Mark) error {
	if s, ok := FromContext(ctx); !ok || s.Group != v.group || s.Mark() != m {
		return ErrNoProof
	}
	return nil
}

// open returns the statement of a proof, if one of the keys signed it.
func (v *Verifier) open(proof string) (Statement, error) {
	switch {
	case proof == "":
		return Statement{}, ErrNoProof
	case len(proof) > MaxSize:
		return Statement{}, fmt.Errorf("%w: it has more than %d bytes", ErrInvalid, MaxSize)
	case strings.ContainsFunc(proof, foreignLetter):
		// Package base64 skips line breaks, so one proof would have many forms.
		return Statement{}, fmt.Errorf("%w: it is not of base64url and points", ErrInvalid)
	}
	kid, err := readHeader(proof)
	if err != nil {
		return Statement{}, fmt.Errorf("%w: header: %w", ErrInvalid, err)
	}
	key := v.keys.Load().find(kid)
	if key == nil {
		return Statement{}, fmt.Errorf("%w: no key of the group has its id", ErrInvalid)
	}
	c := new(claims)
	token, err := v.parser.ParseWithClaims(proof, c, func(*jwt.Token) (any, error) { return key, nil })
	// The library fills the claims also of what it refuses.
	if err != nil || !token.Valid {
		return Statement{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	c.Key = kid
	return c.Statement, nil
}

func foreignLetter(r rune) bool {
	return !('A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
}

// readHeader returns the kid. The header has alg, typ and kid and nothing else:
// what names a key by itself (jwk, jku, x5c), or demands what is not understood
// (crit), is refused by not being one of these.
func readHeader(proof string) (kid string, err error) {
	segment, _, _ := strings.Cut(proof, ".")
	b, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil {
		return "", errors.New("no base64url")
	}
	members, err := object(b)
	if err != nil {
		return "", err
	}
	var alg, typ string
	if err := errors.Join(member(members, "alg", &alg), member(members, "typ", &typ), member(members, "kid", &kid)); err != nil {
		return "", err
	}
	switch {
	case alg != algorithm:
		return "", errors.New("alg is not " + algorithm)
	case typ != Type:
		return "", errors.New("typ is not " + Type)
	case len(members) != 3:
		return "", errors.New("it has more than alg, typ and kid")
	}
	return kid, nil
}

// judge holds what was signed against what is wanted here and now. A payload of
// null leaves the statement empty, which is of no group.
func (v *Verifier) judge(s Statement, audience string, now time.Time) error {
	now = now.Round(0) // the wall clock: the other end has no part in our monotonic one
	switch {
	case s.Group != v.group:
		return fmt.Errorf("%w: it is of another group", ErrInvalid)
	case s.Audience != audience:
		return fmt.Errorf("%w: it is for another audience", ErrInvalid)
	case s.Until.Sub(s.Issued) > v.opts.MaxLifetime:
		return fmt.Errorf("%w: it lasts for more than %v", ErrInvalid, v.opts.MaxLifetime)
	case s.Issued.After(now.Add(v.opts.Skew)):
		return fmt.Errorf("%w, %v after the time here", ErrNotYet, s.Issued.Sub(now))
	case !now.Add(v.opts.Skew).Before(s.Until):
		return fmt.Errorf("%w: its end is %v ahead, and clocks may differ by %v", ErrExpired, s.Until.Sub(now), v.opts.Skew)
	}
	return nil
}

type contextKey struct{}

// NewContext returns a context that carries an accepted statement.
func NewContext(ctx context.Context, s Statement) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// FromContext returns the statement that was accepted for the work of ctx, by
// Verifier.Enter or a middleware.
func FromContext(ctx context.Context) (Statement, bool) {
	s, ok := ctx.Value(contextKey{}).(Statement)
	return s, ok
}
