package record

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

// DrainPrefix begins no group's name: DrainKey would otherwise return the
// control register of a group.
const DrainPrefix = "_drain."

// DrainKey is the name of the register by which operators drain an instance. It
// begins like the names of control registers, which observers of all versions
// skip.
//
// It ends with the InstanceID, where that can be a part of a key. Otherwise it
// ends with "=" and the InstanceID in base64url, or with "==" and the SHA-256 of
// the InstanceID in base64url if that is too long. No two instances have the
// same key, but for those whose hashes are equal: see Drain.Instance.
func DrainKey(instance string) string {
	prefix := ControlKey(DrainPrefix)
	if key := prefix + instance; store.ValidKey(key) && !strings.HasPrefix(instance, "=") {
		return key
	}
	if key := prefix + "=" + base64.RawURLEncoding.EncodeToString([]byte(instance)); len(key) <= store.MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(instance))
	return prefix + "==" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// A Drain is the content of an instance's drain register, as JSON. While it
// exists, the instance hands over what it leads and campaigns for nothing.
type Drain struct {
	// Instance is the InstanceID. A reader ignores a record of another
	// instance.
	Instance string `json:"instance"`
	// By is who asks, and Reason why, for people.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// At is when the record was made, by the wall clock of the operator, for
	// people alone.
	At Moment `json:"at,omitempty"`
	// Taken identifies the process that obeys the record: see package process.
	// A later process of the instance ignores the record and removes it. Empty:
	// no process has found the record yet.
	Taken string `json:"taken,omitempty"`
	// Unknown is as in Control.
	Unknown string `json:"-"`
}

// MarshalJSON writes the unknown fields beside the known ones.
func (d Drain) MarshalJSON() ([]byte, error) {
	type plain Drain
	return withUnknown(plain(d), d.Unknown)
}

// UnmarshalJSON keeps what it does not know.
func (d *Drain) UnmarshalJSON(b []byte) error {
	type plain Drain
	var err error
	if err = json.Unmarshal(b, (*plain)(d)); err == nil {
		d.Unknown, err = unknown(b, *d)
	}
	return err
}

// Encode returns the record's bytes, or an error if they exceed what every
// store takes. Fields of which nothing is known are left out if there is no
// room for them.
func (d Drain) Encode() ([]byte, error) {
	b, err := encode(d)
	if err == nil {
		return b, nil
	}
	d.Unknown = ""
	return encode(d)
}

// ReadDrain interprets an instance's drain register. drained is false if
// the register is deleted or missing. ok is false if the content is not the
// drain record of an instance with that key: then nothing is known to have
// changed.
func ReadDrain(e store.Entry) (d Drain, drained, ok bool) {
	if e.Revision == 0 || len(e.Value) == 0 {
		return Drain{}, false, e.Revision == 0 || e.Tombstone
	}
	if len(e.Value) > store.MaxValue || json.Unmarshal(e.Value, &d) != nil || !d.check(e.Key) {
		return Drain{}, false, false
	}
	return d, true, true
}

func (d Drain) check(key string) bool {
	return d.Instance != "" && len(d.Instance) <= MaxName && DrainKey(d.Instance) == key &&
		len(d.By) <= MaxName && len(d.Reason) <= MaxWhy && len(d.Taken) <= MaxName
}
