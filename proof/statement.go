package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

// Type is the typ in the header of each proof, so that no other token that the
// same key signs passes for one (RFC 8725, section 3.11).
const Type = "leader-proof+jwt"

// algorithm is the one of all proofs (RFC 8037).
const algorithm = "EdDSA"

const (
	maxName  = 256 // of an InstanceID and an audience, in bytes
	maxKeyID = 128
	// MaxSize is the length in bytes of the longest proof that is made or read.
	// A proof has some 450, and more for long names.
	MaxSize = 4096
)

// A Statement is the content of a proof: Leader leads Group in the term Term,
// and nobody else takes the lead before Until.
type Statement struct {
	// Group is the group's name (claim iss).
	Group string
	// Leader is the leader's InstanceID (sub).
	Leader string
	// Term is the number of the term, at most fence.MaxTerm (term, a decimal
	// string, since programs that read JSON numbers as floating point round
	// those beyond 2^53).
	Term uint64
	// Digest is the digest of the term's token, as fence.Digest returns it
	// (digest). It identifies the term, and does not reveal its token.
	Digest string
	// Audience is the intended recipient (aud). If empty, the proof is valid
	// for any audience, so a recipient can replay it to others.
	Audience string
	// Issued is when it was signed (iat), and Until when it ends (exp), by the
	// signer's clock, in milliseconds.
	Issued, Until time.Time
	// Key is the id of the key that signed it (the header's kid).
	Key string
}

// Mark returns what a resource remembers of the term.
func (s Statement) Mark() fence.Mark { return fence.Mark{Term: s.Term, Digest: s.Digest} }

// String describes the statement in one line for people.
func (s Statement) String() string {
	return fmt.Sprintf("%q leads %s in term %d until %s", s.Leader, s.Group, s.Term, s.Until.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// valid reports what no candidate states.
func (s Statement) valid() error {
	switch _, err := (fence.Mark{}).AcceptMark(s.Mark()); {
	case !store.ValidKey(s.Group):
		return errors.New("iss names no group")
	case !validName(s.Leader):
		return fmt.Errorf("sub must be 1 to %d bytes of UTF-8", maxName)
	case s.Audience != "" && !validName(s.Audience):
		return fmt.Errorf("aud must be 1 to %d bytes of UTF-8", maxName)
	case err != nil:
		return fmt.Errorf("term and digest name no term: %w", err)
	case !s.Issued.Before(s.Until) || s.Issued.Unix() < 1 || s.Until.Unix() >= maxSeconds:
		return errors.New("exp is not after iat, or either is out of range")
	}
	return nil
}

func validName(s string) bool { return s != "" && len(s) <= maxName && utf8.ValidString(s) }

// Sign returns the statement as a proof: a JWT (RFC 7519) in compact form,
// signed by EdDSA. Times are rounded down to milliseconds, and s.Key is not
// used. It signs without checking the claim: a [Signer] checks it. Errors match
// ErrInvalid, or come from the key's signer.
func (k Key) Sign(s Statement) (string, error) {
	s.Issued, s.Until = s.Issued.Truncate(time.Millisecond), s.Until.Truncate(time.Millisecond)
	if err := s.valid(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if k.signer == nil {
		return "", fmt.Errorf("%w: there is none", ErrKey)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &claims{Statement: s})
	token.Header["typ"], token.Header["kid"] = Type, k.id
	text, err := token.SignedString(k.signer)
	if err != nil {
		return "", fmt.Errorf("proof: signing: %w", err)
	}
	if len(text) > MaxSize {
		return "", fmt.Errorf("%w: its names make it longer than %d bytes", ErrInvalid, MaxSize)
	}
	return text, nil
}

// claims is a statement in the form that package jwt takes. Verifier.judge
// applies the rules about them, because package jwt knows whole seconds only.
type claims struct{ Statement }

func date(t time.Time) (*jwt.NumericDate, error) { return &jwt.NumericDate{Time: t}, nil }

// These make it a jwt.Claims.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return date(c.Until) }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return date(c.Issued) }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil } //nolint:nilnil // how the interface expresses a missing claim
func (c *claims) GetIssuer() (string, error)                   { return c.Group, nil }
func (c *claims) GetSubject() (string, error)                  { return c.Leader, nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error)       { return jwt.ClaimStrings{c.Audience}, nil }

// MarshalJSON writes the claims.
func (c *claims) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Issuer   string      `json:"iss"`
		Subject  string      `json:"sub"`
		Audience string      `json:"aud,omitempty"`
		IssuedAt json.Number `json:"iat"`
		Expires  json.Number `json:"exp"`
		Term     string      `json:"term"`
		Digest   string      `json:"digest"`
	}{
		c.Group, c.Leader, c.Audience, numericDate(c.Issued), numericDate(c.Until), strconv.FormatUint(c.Term, 10), c.Digest,
	})
}

// UnmarshalJSON reads them, and demands each, once, in its form. Claims that it
// does not know are left alone, as RFC 7519 has it.
func (c *claims) UnmarshalJSON(b []byte) error {
	members, err := object(b)
	if err != nil {
		return err
	}
	var s Statement
	var term string
	err = errors.Join(
		member(members, "iss", &s.Group), member(members, "sub", &s.Leader), member(members, "digest", &s.Digest),
		member(members, "term", &term), instant(members, "iat", &s.Issued), instant(members, "exp", &s.Until),
		notBefore(members), audience(members, &s.Audience),
	)
	if err != nil {
		return err
	}
	s.Term, err = strconv.ParseUint(term, 10, 64)
	if err != nil || strconv.FormatUint(s.Term, 10) != term {
		return errors.New("term is not a decimal number")
	}
	if err := s.valid(); err != nil {
		return err
	}
	c.Statement = s
	return nil
}

// object returns the members of a JSON object, and refuses one that has two of
// a name: what reads the first and what reads the last would not see the same.
// Names that differ in case are the same here, for package json fills fields by
// either.
func object(b []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no JSON object")
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("no JSON object")
		}
		for other := range members {
			if strings.EqualFold(other, name) {
				return nil, fmt.Errorf("member %.20q is repeated", name)
			}
		}
		if len(members) == maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errors.New("no JSON object")
		}
		members[name] = value
	}
	_, err := dec.Token() // the brace
	if _, end := dec.Token(); err != nil || !errors.Is(end, io.EOF) {
		return nil, errors.New("no JSON object, or more than one")
	}
	return members, nil
}

// maxMembers bounds the names that are compared with each other.
const maxMembers = 32

func member(members map[string]json.RawMessage, name string, to *string) error {
	if raw := members[name]; len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, to) != nil {
		return fmt.Errorf("%s is missing, or no string", name)
	}
	return nil
}

// audience reads aud, which is a string or a list of them. A proof is for one
// receiver at most.
func audience(members map[string]json.RawMessage, to *string) error {
	raw, ok := members["aud"]
	if !ok {
		return nil
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) == 1 {
		*to = list[0]
	} else if err := member(members, "aud", to); err != nil {
		return err
	}
	if *to == "" {
		return errors.New("aud is empty")
	}
	return nil
}

// notBefore refuses what another signer may have meant: ours write no nbf.
func notBefore(members map[string]json.RawMessage) error {
	if _, ok := members["nbf"]; ok {
		return errors.New("nbf has no meaning in a proof")
	}
	return nil
}

// numericDate is a NumericDate of RFC 7519: seconds, here with milliseconds,
// since a lease may be shorter than a second.
func numericDate(t time.Time) json.Number {
	ms := t.UnixMilli()
	return json.Number(fmt.Sprintf("%d.%03d", ms/1000, ms%1000))
}

// instant reads a NumericDate, rounded down to milliseconds.
func instant(members map[string]json.RawMessage, name string, to *time.Time) error {
	seconds, err := strconv.ParseFloat(string(members[name]), 64)
	if err != nil || !(seconds >= 1 && seconds < maxSeconds) {
		return fmt.Errorf("%s is missing, or no time", name)
	}
	// The addend undoes what the division into binary fractions takes away.
	*to = time.UnixMilli(int64(math.Floor(seconds*1000 + 1e-3)))
	return nil
}

// maxSeconds is the year 5138: the milliseconds before it are exact in a
// float64.
const maxSeconds = 1e11
