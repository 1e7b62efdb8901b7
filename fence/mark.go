package fence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader"
)

// Errors of this package and of the guards, for errors.Is.
var (
	// ErrStale: a newer term was seen, or another one with the same number. It
	// stays so: the caller leads no more. The error is a *StaleError, or wraps
	// one.
	ErrStale = errors.New("fence: stale term")
	// ErrInvalid: the value is not a term or not a mark. See [Check].
	ErrInvalid = errors.New("fence: invalid")
	// ErrRefused: Gate.Vet refused a new term. The gate's mark stays, and the
	// error wraps Vet's.
	ErrRefused = errors.New("fence: term refused")
)

const (
	// MaxToken is the length in bytes of the longest token that guards take.
	// Tokens of package leader have 36.
	MaxToken = 128
	// MaxTerm is the largest number of a term that guards take: 2^53. No
	// election reaches it for two centuries, and a guard that accepted a larger
	// one would refuse every leader from then on.
	MaxTerm = 1 << 53
)

// A Mark is what a resource remembers: the latest term that it accepted, with
// the SHA-256 of its token in place of the token. The zero Mark has seen
// nothing, and accepts every term. A Mark is a value: it may be copied and
// compared with ==.
type Mark struct {
	// Term is the term's number.
	Term uint64
	// Digest is the SHA-256 of the token in lower-case hexadecimal, as [Digest]
	// returns it. A Mark without digest (written by a person, for example)
	// accepts larger terms only.
	Digest string
}

// MarkOf returns what a resource remembers of a term.
func MarkOf(t leader.Term) Mark { return Mark{Term: t.Number, Digest: Digest(t.Token)} }

// Digest returns the SHA-256 of a token in lower-case hexadecimal, 64
// characters. It is what `printf %s "$token" | sha256sum` shows, so that guards
// in other languages can write the same.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Accept is the rule. It returns the mark to remember from now on, m itself if
// t was seen before. An error matches ErrStale or ErrInvalid, and leaves m as
// the mark.
//
// It is the rule of leader.Term.Supersedes for a resource that does not know
// the token.
func (m Mark) Accept(t leader.Term) (Mark, error) {
	if err := Check(t); err != nil {
		return m, err
	}
	return m.succeed(MarkOf(t))
}

// AcceptMark is Accept for a term of which the caller holds the mark and not
// the token, as from a proof (module proof). The mark must have a term and a
// digest, or the error matches ErrInvalid.
func (m Mark) AcceptMark(next Mark) (Mark, error) {
	if err := next.valid(); err != nil {
		return m, err
	}
	if next.Term == 0 || next.Digest == "" {
		return m, fmt.Errorf("%w: mark %v: want a term and a digest", ErrInvalid, next)
	}
	return m.succeed(next)
}

func (m Mark) succeed(next Mark) (Mark, error) {
	if m.Term > MaxTerm {
		// Every leader would be stale here, permanently.
		return m, fmt.Errorf("%w: this resource's mark %v: the number must be at most %d: replace the mark by the mark of the latest term",
			ErrInvalid, m, uint64(MaxTerm))
	}
	if next.Term > m.Term || next == m {
		return next, nil
	}
	return m, &StaleError{Refused: next, Last: m}
}

// IsZero reports whether m has seen nothing.
func (m Mark) IsZero() bool { return m == Mark{} }

// String shows the number and the first digits of the digest, as leader.Term
// does.
func (m Mark) String() string {
	return fmt.Sprintf("%d/%s", m.Term, m.Digest[:min(8, len(m.Digest))])
}

// MarshalText returns the mark in full, for a file, a column or JSON: the
// number, a slash, the digest. It returns no error.
func (m Mark) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d/%s", m.Term, m.Digest), nil
}

// UnmarshalText reads what MarshalText wrote. Other text, and a number larger
// than MaxTerm, is an error that matches ErrInvalid: a resource that cannot read
// its mark must not act, for the zero Mark would accept everyone.
func (m *Mark) UnmarshalText(text []byte) error {
	number, digest, ok := strings.Cut(string(text), "/")
	term, err := strconv.ParseUint(number, 10, 64)
	read := Mark{Term: term, Digest: digest}
	if !ok || err != nil {
		return fmt.Errorf("%w: mark %.100q: want a number, a slash and a digest", ErrInvalid, text)
	}
	if err := read.valid(); err != nil {
		return err
	}
	*m = read
	return nil
}

// valid reports a mark that no guard wrote: a digest that is not 64 lower-case
// hexadecimal digits (or empty), one without a term, or a term larger than
// MaxTerm.
func (m Mark) valid() error {
	raw, err := hex.DecodeString(m.Digest)
	ok := err == nil && m.Digest == strings.ToLower(m.Digest) && (len(raw) == sha256.Size || len(raw) == 0)
	switch {
	case !ok || m.Term == 0 && m.Digest != "":
		return fmt.Errorf("%w: mark of term %d with digest %.100q: want 64 lower-case hexadecimal digits, and none for term 0", ErrInvalid, m.Term, m.Digest)
	case m.Term > MaxTerm:
		return fmt.Errorf("%w: mark of term %d: the number must be at most %d", ErrInvalid, m.Term, uint64(MaxTerm))
	}
	return nil
}

// Check reports a value that cannot be the term of any election: without number
// or with a number larger than MaxTerm, or whose token is not 1 to MaxToken
// visible ASCII characters. The error matches ErrInvalid and does not show the
// token.
func Check(t leader.Term) error {
	switch {
	case t.Number == 0:
		return fmt.Errorf("%w: a term without number: the caller does not lead", ErrInvalid)
	case t.Number > MaxTerm:
		return fmt.Errorf("%w: term %d: the number must be at most %d", ErrInvalid, t.Number, uint64(MaxTerm))
	case t.Token == "" || len(t.Token) > MaxToken || strings.ContainsFunc(t.Token, invisible):
		return fmt.Errorf("%w: the token of term %d must be 1 to %d visible ASCII characters", ErrInvalid, t.Number, MaxToken)
	}
	return nil
}

func invisible(r rune) bool { return r <= ' ' || r > '~' }

// A StaleError is the refusal of a term. It matches ErrStale.
type StaleError struct {
	// Refused is the term that asked.
	Refused Mark
	// Last is what the resource had accepted before, or the term that took its
	// place meanwhile.
	Last Mark
}

// Error shows both terms, with the first digits of the digests of their tokens.
func (e *StaleError) Error() string {
	if e.Refused.Term == e.Last.Term {
		return fmt.Sprintf("fence: term %v is not the %v that was accepted", e.Refused, e.Last)
	}
	return fmt.Sprintf("fence: stale term %v: %v was accepted", e.Refused, e.Last)
}

// Is reports whether target is ErrStale, which each StaleError matches.
func (e *StaleError) Is(target error) bool { return target == ErrStale }
