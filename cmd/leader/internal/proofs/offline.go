package proofs

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed-ff2cb582/leader/proof"
)

// Offline is the flags of leader token verify that judge a proof without a
// server. The command embeds it.
type Offline struct {
	Offline  bool          `help:"Judge a proof by the group's public keys, without a server."`
	Keys     string        `placeholder:"FILE" help:"With --offline: the group's public keys, a JWK set."`
	Proof    string        `default:"-" placeholder:"PROOF" help:"With --offline: the proof; - reads it from the standard input."`
	Audience string        `placeholder:"NAME" help:"With --offline: the audience that the proof has to name. Without, it has to be for everyone."`
	MinTerm  uint64        `placeholder:"N" help:"With --offline: the largest term that was seen; a proof of an earlier one is stale."`
	Skew     time.Duration `default:"100ms" placeholder:"TIME" help:"With --offline: by how much the signer's clock may differ from this one. A proof that is to end within that time counts as expired."`
}

// Validate checks what the parser cannot.
func (o Offline) Validate() error {
	switch {
	case o.Offline && o.Keys == "":
		return errors.New("--offline: needs --keys, the group's public keys")
	case !o.Offline && o.Keys != "":
		return errors.New("--keys: is for --offline")
	case !o.Offline && (o.Proof != "" && o.Proof != "-" || o.Audience != "" || o.MinTerm != 0):
		// A proof that nobody looked at must not pass for a good one.
		return errors.New("--proof, --audience and --min-term: are for --offline")
	case o.Skew < 0:
		return fmt.Errorf("--skew %v: must not be negative", o.Skew)
	}
	return nil
}

// The verdicts about a proof.
const (
	Valid   = "valid"
	Expired = "expired"
	Future  = "future"
	Stale   = "stale"
	Invalid = "invalid"
)

// Judge returns the verdict about a proof of the group, the statement of one
// that is valid or stale, and why any other is refused.
func (o Offline) Judge(group string, in io.Reader) (verdict string, s proof.Statement, why, err error) {
	text := o.Proof
	if text == "-" {
		if text, err = line("--proof -", "proof", in); err != nil {
			return "", s, nil, err
		}
	}
	keys, err := proof.ReadKeySet(o.Keys)
	if err != nil {
		return "", s, nil, err
	}
	skew := o.Skew
	if skew == 0 {
		skew = -1 // none: zero is the default
	}
	v, err := proof.NewVerifier(group, keys, proof.VerifierOptions{Audience: o.Audience, Skew: skew})
	if err != nil {
		return "", s, nil, err
	}
	s, why = v.Verify(text)
	switch {
	case errors.Is(why, proof.ErrExpired):
		return Expired, s, why, nil
	case errors.Is(why, proof.ErrNotYet):
		return Future, s, why, nil
	case why != nil:
		return Invalid, s, why, nil
	case s.Term < o.MinTerm:
		return Stale, s, nil, nil
	}
	return Valid, s, nil, nil
}
