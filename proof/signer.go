package proof

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

// DefaultLifetime is how long a proof is valid by default.
const DefaultLifetime = 10 * time.Second

// minRotation bounds how often a proof is replaced while the trust window runs
// out.
const minRotation = 10 * time.Millisecond

// ErrNoTerm means that the context is not a term's, nor descends from one. An act outside
// of a term is not proved to be the leader's.
var ErrNoTerm = errors.New("proof: the context is of no term")

// SignerOptions are the settings of a signer. The zero value is a good one.
type SignerOptions struct {
	// Lifetime is the longest time for which a proof is valid. Each proof also
	// ends with the trust window, but a proof of a leader that resigns outlives
	// its term by the rest of it. Default: DefaultLifetime.
	Lifetime time.Duration
}

// An Election is what a signer asks: a leader.Election.
type Election interface {
	// Status returns what the candidate knows: see leader.Election.
	Status() leader.ElectionStatus
}

// A Signer makes the proofs of one candidate, while it leads. All methods may
// be called concurrently.
type Signer struct {
	e             Election
	group, leader string
	lifetime      time.Duration
	key           atomic.Pointer[Key]
}

// NewSigner returns a signer for a candidate. group and instanceID must equal
// its ElectionConfig. The key must be in the group's key set. Errors match
// ErrInvalid or ErrKey.
func NewSigner(e Election, group, instanceID string, key Key, opts SignerOptions) (*Signer, error) {
	if opts.Lifetime == 0 {
		opts.Lifetime = DefaultLifetime
	}
	switch {
	case e == nil:
		return nil, fmt.Errorf("%w: there is no election", ErrInvalid)
	case !store.ValidKey(group):
		return nil, fmt.Errorf("%w: %.100q is not the name of a group", ErrInvalid, group)
	case !validName(instanceID):
		return nil, fmt.Errorf("%w: an InstanceID has 1 to %d bytes of UTF-8", ErrInvalid, maxName)
	case opts.Lifetime < time.Millisecond:
		return nil, fmt.Errorf("%w: Lifetime %v: must be 1ms or more", ErrInvalid, opts.Lifetime)
	}
	s := &Signer{e: e, group: group, leader: instanceID, lifetime: opts.Lifetime}
	if err := s.SetKey(key); err != nil {
		return nil, err
	}
	return s, nil
}

// SetKey has all further proofs signed by another key: see [KeySet] for the
// order in which keys are replaced. The zero Key is an error that matches
// ErrKey, and changes nothing.
func (s *Signer) SetKey(key Key) error {
	if key.signer == nil {
		return fmt.Errorf("%w: there is none", ErrKey)
	}
	s.key.Store(&key)
	return nil
}

// Sign returns a proof for an audience (empty: any) that this candidate leads
// in the term of ctx, which is the context of OnPromote or of Run's function,
// or a descendant. It ends with the trust window as it is now, or after
// Lifetime. Each call signs another.
//
// Errors match ErrNoTerm, leader.ErrNotLeader if the term is over, or
// ErrInvalid; or they are the cause of the end of ctx, or the key's.
func (s *Signer) Sign(ctx context.Context, audience string) (string, error) {
	proof, _, err := s.sign(ctx, audience)
	return proof, err
}

func (s *Signer) sign(ctx context.Context, audience string) (string, Statement, error) {
	term, ok := leader.TermFromContext(ctx)
	switch {
	case !ok || term.IsZero():
		return "", Statement{}, ErrNoTerm
	case reserved(audience):
		return "", Statement{}, fmt.Errorf("%w: such an audience is for answers", ErrInvalid)
	}
	return s.signFor(ctx, term, audience)
}

// signFor signs for a term, if that is the present one.
func (s *Signer) signFor(ctx context.Context, term leader.Term, audience string) (string, Statement, error) {
	if ctx.Err() != nil {
		return "", Statement{}, context.Cause(ctx)
	}
	// The time first: IsLeader goes by both clocks, so that a machine that is
	// suspended after this line signs nothing, or an ended time. The rest of
	// the window is measured on the monotonic clock, since the wall clock may
	// be set between the two; TrustUntil has subtracted what a suspension took
	// from the window.
	now := time.Now()
	// Read everything at once: a term and a window from two readings may not
	// belong together.
	status := s.e.Status()
	left := min(status.TrustUntil.Sub(now), s.lifetime)
	if !status.IsLeader || (leader.Term{Number: status.Term, Token: status.Token}) != term || left < time.Millisecond {
		return "", Statement{}, fmt.Errorf("proof: term %d is over: %w", term.Number, leader.ErrNotLeader)
	}
	st := s.statement(term, audience, now, left)
	proof, err := s.key.Load().Sign(st)
	return proof, st, err
}

func (s *Signer) statement(term leader.Term, audience string, now time.Time, left time.Duration) Statement {
	issued := now.Round(0)
	return Statement{
		Group: s.group, Leader: s.leader, Term: term.Number, Digest: fence.Digest(term.Token), Audience: audience,
		Issued: issued, Until: issued.Add(left),
	}
}

// Rotate hands put a proof at once, and another one each time that a third of
// the last one's time has passed, until the term ends or put fails. It is for
// what needs a proof at hand through a long term: a file that a program in
// another language reads, a header that a proxy adds. The number of the term
// and its digest stay the same.
//
// While no renewal is acknowledged the window does not move, and the proofs end
// all the same. The error comes from put or from [Signer.Sign]: it is never
// nil.
func (s *Signer) Rotate(ctx context.Context, audience string, put func(proof string, until time.Time) error) error {
	for {
		proof, st, err := s.sign(ctx, audience)
		if err != nil {
			return err
		}
		if err := put(proof, st.Until); err != nil {
			return err
		}
		if err := sleep(ctx, max(minRotation, st.Until.Sub(st.Issued)/3)); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
