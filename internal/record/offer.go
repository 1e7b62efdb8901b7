package record

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// NewClaim returns the token of a new claim and the word from which it is made.
// The token stands in the record for all to read. The word stays with the
// holder until its term is over: who shows it is the holder, or has been told
// by it. So an offer needs no more trust than the record: only who wrote the
// one can make the other.
func NewClaim() (token, word string) {
	word = rand.Text()
	return Token(word), word
}

// NewNonce returns a number for one write. It is drawn now, from the operating
// system: a number that was drawn before, or by a generator of ours, a copy of
// this machine would have too. Linux seeds its generator anew in a machine that
// was cloned or restored (vmgenid), where the hypervisor says so.
func NewNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return max(1, binary.LittleEndian.Uint64(b[:])%maxNumber)
}

// Token returns the token of the claim whose word this is: a UUID out of a hash
// (RFC 9562, version 8).
func Token(word string) string {
	b := sha256.Sum256([]byte(word))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// An Offer tells one of those who wait for a group's record that the claim in
// it is over, as JSON.
type Offer struct {
	// Word is that of the claim.
	Word string `json:"word"`
	// Revision is that of the record that is offered. A candidate that has not
	// heard of it yet does so before it claims.
	Revision uint64 `json:"revision"`
	// Reason is why its term ended, for people. The word proves the claim and
	// not this: anybody who hears an offer could repeat it with another.
	Reason string `json:"reason"`
	// Settled is as in a vacancy. The word vouches for it no more than for the
	// reason, and it counts only where records vanish.
	Settled bool `json:"settled,omitempty"`
}

// Encode returns the offer's bytes.
func (o Offer) Encode() ([]byte, error) { return encode(o) }

// MaxReason is the length of the longest reason that is believed of an offer,
// in bytes.
const MaxReason = 32

// ReadOffer interprets an offer. What cannot be one is none.
func ReadOffer(b []byte) (seen machine.Seen, ok bool) {
	var o Offer
	if len(b) > store.MaxValue || json.Unmarshal(b, &o) != nil {
		return seen, false
	}
	if o.Word == "" || o.Revision > maxNumber || o.Reason == "" || len(o.Reason) > MaxReason {
		return seen, false
	}
	return machine.Seen{
		Kind: machine.Vacant, Rev: o.Revision, Rec: machine.Record{Token: Token(o.Word), Reason: machine.Reason(o.Reason), Settled: o.Settled},
	}, true
}

// A Nomination tells all others who wait for a group's record that a candidate
// goes first when the lease of its holder has run out, as JSON. It permits
// nothing.
type Nomination struct {
	// Nominee is the candidate. Of several for one revision the least counts.
	Nominee string `json:"nominee"`
	// Revision is that of the holder's record. Any later renewal calls it off.
	Revision uint64 `json:"revision"`
}

// Encode returns the nomination's bytes.
func (n Nomination) Encode() ([]byte, error) { return encode(n) }

// ReadNomination interprets a nomination. What cannot be one is none.
func ReadNomination(b []byte) (n Nomination, ok bool) {
	if len(b) > store.MaxValue || json.Unmarshal(b, &n) != nil {
		return Nomination{}, false
	}
	if n.Nominee == "" || len(n.Nominee) > MaxName || n.Revision == 0 || n.Revision > maxNumber {
		return Nomination{}, false
	}
	return n, true
}

// Replaces reports whether n counts, heard after o.
func (n Nomination) Replaces(o Nomination) bool {
	return n.Revision != o.Revision || n.Nominee < o.Nominee
}
