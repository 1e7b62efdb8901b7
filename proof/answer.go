package proof

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/seed-ff2cb582/leader"
)

// answerTo begins the audience of each proof that answers a challenge. No other
// proof has such an audience, and no service: what a leader signs for anybody
// who asks it is worth nothing anywhere else.
const answerTo = "answer to "

// The lengths of a challenge, in bytes.
const (
	minChallenge = 16
	maxChallenge = 128
)

// NewChallenge returns a challenge: 128 random bits in base64url. A client that
// sends it to a server and gets it answered (Signer.Answer,
// Verifier.AcceptAnswer) knows that the answer is neither an earlier one, nor
// one to somebody else.
func NewChallenge() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// answerAudience is the audience of a proof that answers a challenge.
func answerAudience(challenge string) (string, error) {
	if len(challenge) < minChallenge || len(challenge) > maxChallenge || strings.ContainsFunc(challenge, foreignLetter) {
		return "", fmt.Errorf("%w: a challenge has %d to %d letters of base64url", ErrInvalid, minChallenge, maxChallenge)
	}
	return answerTo + challenge, nil
}

// reserved reports whether an audience is not for callers to name.
func reserved(audience string) bool { return strings.HasPrefix(audience, answerTo) }

// Answer returns a proof that this candidate leads now, for the client that
// sent the challenge: a client that wants to know whether the server that it
// talks to leads. If ctx belongs to a term, or descends from a term's context,
// the proof is of that term, as in [Signer.Sign]; otherwise it is of the
// current term, since a server also answers requests with foreign contexts.
//
// Errors are the errors of Sign except ErrNoTerm. A malformed challenge matches
// ErrInvalid.
func (s *Signer) Answer(ctx context.Context, challenge string) (string, error) {
	audience, err := answerAudience(challenge)
	if err != nil {
		return "", err
	}
	term, ok := leader.TermFromContext(ctx)
	if !ok || term.IsZero() {
		status := s.e.Status()
		term = leader.Term{Number: status.Term, Token: status.Token}
	}
	proof, _, err := s.signFor(ctx, term, audience)
	return proof, err
}

// AcceptAnswer judges a proof as [Verifier.Accept] does, except that it must
// answer the challenge, whatever the verifier's Audience is. So it was signed
// after the challenge was made, and the term is no older than any that this
// verifier has accepted.
func (v *Verifier) AcceptAnswer(ctx context.Context, challenge, proof string) (Statement, error) {
	audience, err := answerAudience(challenge)
	if err != nil {
		return Statement{}, err
	}
	s, err := v.verify(proof, audience)
	if err == nil {
		err = v.opts.Gate.AcceptMark(NewContext(ctx, s), s.Mark())
	}
	if err != nil {
		return Statement{}, err
	}
	return s, nil
}
