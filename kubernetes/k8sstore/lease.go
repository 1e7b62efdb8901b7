package k8sstore

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-ff2cb582/leader/store"
)

// The annotations of a Lease that a Store writes.
const (
	// recordAnnotation holds the register's value if that is text, and
	// binaryAnnotation its base64 form if it is not.
	recordAnnotation = "leader/record"
	binaryAnnotation = "leader/record-base64"
	// tombstoneAnnotation is "true" for a tombstone.
	tombstoneAnnotation = "leader/tombstone"
	// writtenAnnotation holds the spec's renewTime and a number of the write.
	// By the first one knows whether the spec was written with the annotations;
	// client-go keeps them when it takes a Lease over.
	writtenAnnotation = "leader/written"
	// keyAnnotation holds the register's key where the Lease's name is too
	// short for it.
	keyAnnotation = "leader/key"
)

// A lease is a Lease that is the register of a key.
type lease struct {
	*coordinationv1.Lease

	key string
	rev uint64
	// term is the number of a foreign holder's term: the revision at which this
	// store saw it first.
	term uint64
}

// newLease takes a Lease as the server sent it. previous is what the store knew
// of the key before, or nil.
func newLease(key string, l *coordinationv1.Lease, previous *lease) (*lease, error) {
	rev, err := strconv.ParseUint(l.ResourceVersion, 10, 64)
	if err != nil || rev == 0 {
		return nil, fmt.Errorf("%w: the Lease %s has the resourceVersion %q, and only numbers have an order (KEP-5504)",
			store.ErrPermanent, l.Name, l.ResourceVersion)
	}
	l.ManagedFields = nil // nobody asks, and it is half of the object
	n := &lease{Lease: l, key: key, rev: rev, term: rev}
	if previous != nil && previous.rev <= rev && previous.claim() == n.claim() {
		n.term = previous.term
	}
	return n, nil
}

// claim distinguishes the leaderships of a Lease that other programs hold.
func (l *lease) claim() string {
	var acquired int64
	if l.Spec.AcquireTime != nil {
		acquired = l.Spec.AcquireTime.UnixMicro()
	}
	return fmt.Sprintf("%s/%d/%d/%s", l.UID, value(l.Spec.LeaseTransitions), acquired, value(l.Spec.HolderIdentity))
}

// entry is the register's state. The spec is authoritative: client-go keeps the
// annotations of another when it takes a Lease over.
func (l *lease) entry() store.Entry {
	e := store.Entry{Key: l.key, Revision: l.rev}
	if v, tombstone, ok := l.written(); ok {
		e.Value, e.Tombstone = v, tombstone
		return e
	}
	switch holder := value(l.Spec.HolderIdentity); {
	case holder != "":
		e.Value = l.foreign(holder)
	case l.released():
		e.Value, e.Tombstone = fmt.Appendf(nil, `{"renewed":%d,"reason":"released"}`, millis(l.Spec.RenewTime)), true
	default:
		e.Tombstone = true // somebody has cleared it: no permission to lead at once
	}
	return e
}

// written is the value that a Store has written, if the spec still matches it.
func (l *lease) written() (v []byte, tombstone, ok bool) {
	v, ok = l.stored()
	if !ok {
		return nil, false, false
	}
	tombstone = l.Annotations[tombstoneAnnotation] == "true"
	if at, _, marked := strings.Cut(l.Annotations[writtenAnnotation], " "); marked && at != stamp(l.Spec.RenewTime) {
		return nil, false, false
	}
	r := holderOf(v, tombstone)
	if r.ID != value(l.Spec.HolderIdentity) || r.ID != "" && r.seconds() != value(l.Spec.LeaseDurationSeconds) {
		return nil, false, false
	}
	return v, tombstone, true
}

// stored is the value of the annotations.
func (l *lease) stored() (v []byte, ok bool) {
	if text, is := l.Annotations[recordAnnotation]; is {
		return []byte(text), true
	}
	binary, is := l.Annotations[binaryAnnotation]
	if !is {
		return nil, false
	}
	v, err := base64.StdEncoding.DecodeString(binary)
	return v, err == nil
}

// released reports whether the spec is what client-go writes when it releases a
// Lease that it holds: no holder, a lease of one second, and a new acquireTime
// (tools/leaderelection/leaderelection.go, release).
func (l *lease) released() bool {
	s := l.Spec
	return value(s.HolderIdentity) == "" && value(s.LeaseDurationSeconds) == 1 &&
		s.AcquireTime != nil && s.RenewTime != nil && s.AcquireTime.Equal(s.RenewTime)
}

// foreign is a record with the spec's values for a foreign holder. Candidates
// leave it alone for leaseDurationSeconds and their margin, counted from when
// they saw its latest renewal. The times are for people.
func (l *lease) foreign(holder string) []byte {
	r := struct {
		record

		Acquired uint64 `json:"acquired,omitempty"`
		Renewed  uint64 `json:"renewed,omitempty"`
	}{record{ID: holder, Token: "lease/" + l.claim()}, millis(l.Spec.AcquireTime), millis(l.Spec.RenewTime)}
	if d := value(l.Spec.LeaseDurationSeconds); d > 0 {
		r.TTL = int64(d) * 1000
	}
	if l.term != l.rev {
		r.Term = l.term
	}
	v, err := json.Marshal(r)
	if err != nil {
		return []byte(holder) // a string and numbers: it cannot be
	}
	return v
}

// millis is a time in milliseconds since 1970, as records hold them: 0 means
// none.
func millis(t *metav1.MicroTime) uint64 {
	if t == nil {
		return 0
	}
	return uint64(max(t.UnixMilli(), 0))
}

// A record is what a Lease's spec needs of the JSON that an election writes.
type record struct {
	ID    string  `json:"id,omitempty"`
	Token string  `json:"token,omitempty"`
	TTL   int64   `json:"ttl,omitempty"`  // in milliseconds
	Term  uint64  `json:"term,omitempty"` // absent from an acquiring write
	Drift float64 `json:"drift,omitempty"`
}

// holderOf is the holder's record that a value is. A tombstone has no holder,
// nor has any other value.
func holderOf(v []byte, tombstone bool) record {
	var r record
	if tombstone || json.Unmarshal(v, &r) != nil {
		return record{}
	}
	return r
}

// usualDrift is the drift of a record that states none.
const usualDrift = 0.1

// seconds is the lease's length as client-go has to wait it out: with the
// margin for clocks that run faster, which its own rule has not, and in whole
// seconds.
func (r record) seconds() int32 {
	drift := r.Drift
	if drift <= 0 || drift >= 1 {
		drift = usualDrift
	}
	s := math.Ceil(float64(r.TTL) / 1000 * (1 + drift))
	return int32(min(max(s, 1), math.MaxInt32))
}

// put is a Lease that holds w in the place of previous, which is nil for one
// that is to be made. now is the time of the writer's clock, which nothing but
// people and dashboards depend on.
func put(name string, n names, w store.Write, previous *lease, now time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if previous != nil {
		l = previous.DeepCopy()
	}
	if l.Annotations == nil {
		l.Annotations = make(map[string]string)
	}
	for _, a := range []string{recordAnnotation, binaryAnnotation, tombstoneAnnotation, keyAnnotation} {
		delete(l.Annotations, a)
	}
	if text(w.Value) {
		l.Annotations[recordAnnotation] = string(w.Value)
	} else {
		l.Annotations[binaryAnnotation] = base64.StdEncoding.EncodeToString(w.Value)
	}
	if w.Tombstone {
		l.Annotations[tombstoneAnnotation] = "true"
	}
	if !n.short(w.Key) {
		l.Annotations[keyAnnotation] = w.Key
	}
	at := metav1.NewMicroTime(renewed(previous, now))
	l.Annotations[writtenAnnotation] = stamp(&at) + " " + number()
	spec(l, holderOf(w.Value, w.Tombstone), previous, at)
	return l
}

// number distinguishes a write from all others.
func number() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// renewed is now, or later if the clock has not moved on since previous was
// written: client-go takes a Lease whose spec has not changed for one that was
// not renewed.
func renewed(previous *lease, now time.Time) time.Time {
	now = now.Truncate(time.Microsecond)
	if previous == nil || previous.Spec.RenewTime == nil || !now.Equal(previous.Spec.RenewTime.Time) {
		return now
	}
	return now.Add(time.Microsecond)
}

// spec writes what client-go, kubectl and dashboards read.
func spec(l *coordinationv1.Lease, r record, previous *lease, at metav1.MicroTime) {
	s := &l.Spec
	s.RenewTime = &at
	if r.ID == "" { // a vacancy, as client-go releases a Lease, or a value that names no holder
		s.HolderIdentity, s.LeaseDurationSeconds, s.AcquireTime = nil, new(int32(1)), &at
		return
	}
	same := previous != nil && r.Token != "" && previous.token() == r.Token && value(s.HolderIdentity) == r.ID
	if !same {
		s.AcquireTime = &at
		if previous != nil {
			s.LeaseTransitions = new(min(value(s.LeaseTransitions), math.MaxInt32-1) + 1) // the server refuses what is below zero
		} else {
			s.LeaseTransitions = new(int32(0))
		}
	}
	s.HolderIdentity, s.LeaseDurationSeconds = &r.ID, new(r.seconds())
}

// token is the token of the record that a Store wrote.
func (l *lease) token() string {
	v, tombstone, ok := l.written()
	if !ok {
		return ""
	}
	return holderOf(v, tombstone).Token
}

// text reports whether an annotation can hold the value as it is, and shows it.
func text(v []byte) bool {
	return utf8.Valid(v) && bytes.IndexFunc(v, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) < 0
}

func stamp(t *metav1.MicroTime) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
