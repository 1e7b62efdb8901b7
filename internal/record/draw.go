package record

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

// NewToken returns the token of a new claim, a random UUID (RFC 9562, version
// 4).
func NewToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// NewNonce returns a number for one write. It is drawn now, from the operating
// system: a copy of this machine would also have a number that was drawn
// before, or by our own generator. Linux seeds its generator again in a machine
// that was cloned or restored (vmgenid), where the hypervisor reports it.
func NewNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	return max(1, binary.LittleEndian.Uint64(b[:])%maxNumber)
}
