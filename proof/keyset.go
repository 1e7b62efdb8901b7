package proof

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
)

// A KeySet is the public keys by which the proofs of one group are verified: a
// JWK Set (RFC 7517) of Ed25519 keys (RFC 8037). It is a value that is never
// modified, so it may be used concurrently; the zero KeySet verifies nothing.
//
// To replace a key without a refused proof, give all verifiers a set with the
// old and the new one, then sign with the new one ([Signer.SetKey]), and take
// the old one out when its last proof has expired.
type KeySet struct{ keys []publicKey }

type publicKey struct {
	id  string
	key ed25519.PublicKey
}

// NewKeySet returns the set of these keys, under their [KeyID].
func NewKeySet(keys ...ed25519.PublicKey) (KeySet, error) {
	var s KeySet
	for _, key := range keys {
		var err error
		if s, err = s.and(KeyID(key), key); err != nil {
			return KeySet{}, err
		}
	}
	return s, nil
}

// ReadKeySet reads a key set from a file.
func ReadKeySet(path string) (KeySet, error) {
	b, err := readFile(path)
	if err != nil {
		return KeySet{}, err
	}
	s, err := ParseKeySet(b)
	if err != nil {
		return KeySet{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// A jwk is one key of a set.
type jwk struct {
	Type  string          `json:"kty"`
	Curve string          `json:"crv"`
	X     string          `json:"x"`
	ID    string          `json:"kid"`
	Use   string          `json:"use,omitempty"`
	Alg   string          `json:"alg,omitempty"`
	D     json.RawMessage `json:"d,omitempty"`
}

// ParseKeySet reads a JWK Set. Keys of other types and for other uses are
// skipped, as RFC 7517 has it. An Ed25519 key must have an id (kid) that no
// other has. A set with a private key is refused, since sets are given to
// everyone, and so is one in which no key is left. Errors match ErrKey.
func ParseKeySet(b []byte) (KeySet, error) {
	var doc struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return KeySet{}, fmt.Errorf("%w: no JWK set: %w", ErrKey, err)
	}
	var s KeySet
	for i, k := range doc.Keys {
		if k.D != nil {
			return KeySet{}, fmt.Errorf("%w: key %d of the set is a private one: take its d away, and use it no more", ErrKey, i)
		}
		if k.foreign() {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err != nil {
			return KeySet{}, fmt.Errorf("%w: the x of key %d of the set is not base64url", ErrKey, i)
		}
		if s, err = s.and(k.ID, x); err != nil {
			return KeySet{}, fmt.Errorf("key %d of the set: %w", i, err)
		}
	}
	if len(s.keys) == 0 {
		return KeySet{}, fmt.Errorf("%w: the set has no Ed25519 key", ErrKey)
	}
	return s, nil
}

// foreign reports whether a key is not for us.
func (k jwk) foreign() bool {
	return k.Type != "OKP" || k.Curve != "Ed25519" || k.Use != "" && k.Use != "sig" || k.Alg != "" && k.Alg != algorithm && k.Alg != "Ed25519"
}

// and returns the set with one more key, or no set.
func (s KeySet) and(id string, key ed25519.PublicKey) (KeySet, error) {
	switch {
	case len(key) != ed25519.PublicKeySize:
		return KeySet{}, fmt.Errorf("%w: a public key of %d bytes, and not %d", ErrKey, len(key), ed25519.PublicKeySize)
	case id == "" || len(id) > maxKeyID:
		return KeySet{}, fmt.Errorf("%w: its id (kid) must have 1 to %d bytes", ErrKey, maxKeyID)
	case s.find(id) != nil:
		return KeySet{}, fmt.Errorf("%w: two keys have the id %q", ErrKey, id)
	}
	return KeySet{append(slices.Clone(s.keys), publicKey{id, slices.Clone(key)})}, nil
}

// find returns the key of an id, or nil.
func (s KeySet) find(id string) ed25519.PublicKey {
	for _, k := range s.keys {
		if k.id == id {
			return k.key
		}
	}
	return nil
}

// With returns the set with one more key, or the set itself if it has that key.
// A key that is not of 32 bytes is an error that matches ErrKey.
func (s KeySet) With(key ed25519.PublicKey) (KeySet, error) {
	if slices.ContainsFunc(s.keys, func(k publicKey) bool { return k.key.Equal(key) }) {
		return s, nil
	}
	return s.and(KeyID(key), key)
}

// Without returns the set without the key of an id.
func (s KeySet) Without(id string) KeySet {
	return KeySet{slices.DeleteFunc(slices.Clone(s.keys), func(k publicKey) bool { return k.id == id })}
}

// IDs returns the ids of the keys, in the order of the set.
func (s KeySet) IDs() []string {
	ids := make([]string, len(s.keys))
	for i, k := range s.keys {
		ids[i] = k.id
	}
	return ids
}

// MarshalJSON returns the JWK Set, for a file or a web server.
func (s KeySet) MarshalJSON() ([]byte, error) {
	keys := make([]jwk, len(s.keys))
	for i, k := range s.keys {
		keys[i] = jwk{
			Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(k.key), ID: k.id, Use: "sig", Alg: algorithm,
		}
	}
	return json.Marshal(map[string][]jwk{"keys": keys})
}
