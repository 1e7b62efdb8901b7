package machine

import (
	"hash/maphash"
	"math"
	"math/bits"
	"reflect"
	"testing"
	"unsafe"
)

// This file holds the explorer's memory. It looks up hundreds of millions of
// worlds, so what it keeps of each is small, and found in one place.

// A fingerprint identifies a world, and leaves room for a note beside it. Two
// worlds share one with a chance of 2^-111, which is nothing beside the number
// of worlds visited.
type fingerprint [2]uint64

// noteBits is the room for a note, in the second word.
const noteBits = 16

// A fingerprinter makes the fingerprints of one exploration.
type fingerprinter [2]maphash.Seed

func newFingerprinter() fingerprinter {
	return fingerprinter{maphash.MakeSeed(), maphash.MakeSeed()}
}

// of returns the fingerprint of w. It reads w as bytes, since nothing in a
// world is padding or a pointer (TestAWorldIsItsBytes).
func (f *fingerprinter) of(w *world) fingerprint {
	b := unsafe.Slice((*byte)(unsafe.Pointer(w)), unsafe.Sizeof(*w))
	// An empty place in a table is 0.
	return fingerprint{maphash.Bytes(f[0], b) | 1, maphash.Bytes(f[1], b) &^ (1<<noteBits - 1)}
}

// A marks is a set of fingerprints with a note for each: a hash table with
// linear probing, which takes what Go's map takes, and finds in one miss of the
// cache what takes that two.
type marks struct {
	slots []fingerprint
	n     int
}

// place returns the index of id, or the empty place for it.
func (m *marks) place(id fingerprint) int {
	mask := len(m.slots) - 1
	for at := int(id[1]>>noteBits) & mask; ; at = (at + 1) & mask {
		s := &m.slots[at]
		if s[0] == 0 || s[0] == id[0] && s[1]&^(1<<noteBits-1) == id[1] {
			return at
		}
	}
}

// ahead reads the place where the search for id begins, so that the processor
// fetches several at once.
func (m *marks) ahead(id fingerprint) uint64 {
	if len(m.slots) == 0 {
		return 0
	}
	return m.slots[int(id[1]>>noteBits)&(len(m.slots)-1)][0]
}

// add reports whether id is new, and adds it then.
func (m *marks) add(id fingerprint) bool {
	m.room()
	s := &m.slots[m.place(id)]
	if s[0] != 0 {
		return false
	}
	*s = id
	m.n++
	return true
}

// note returns the note beside id, 0 if there is none.
func (m *marks) note(id fingerprint) uint16 {
	if m.n == 0 {
		return 0
	}
	return uint16(m.slots[m.place(id)][1])
}

// set sets the note beside id, which it adds.
func (m *marks) set(id fingerprint, note uint16) {
	m.add(id)
	m.slots[m.place(id)][1] = id[1] | uint64(note)
}

// room makes room for one more.
func (m *marks) room() {
	if m.n < len(m.slots)/4*3 {
		return
	}
	old := m.slots
	m.slots = make([]fingerprint, max(1<<10, 2*len(old)))
	inHugePages(m.slots)
	for _, s := range old {
		if s[0] != 0 {
			m.slots[m.place(fingerprint{s[0], s[1] &^ (1<<noteBits - 1)})] = s
		}
	}
}

// A table gives small numbers to large values, 0 to the zero value.
type table[T comparable] struct {
	seed  maphash.Seed
	slots []uint64 // a part of the hash, and the number plus 1; 0 is empty
	all   []T
}

func newTable[T comparable]() *table[T] {
	t := &table[T]{seed: maphash.MakeSeed(), slots: make([]uint64, 1<<10)}
	var zero T
	t.id(&zero)
	return t
}

func (t *table[T]) id(v *T) uint32 {
	h := maphash.Comparable(t.seed, *v)
	part, mask := h>>32<<32, uint64(len(t.slots)-1)
	at := h & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		if s := t.slots[at]; s>>32<<32 == part && t.all[uint32(s)-1] == *v {
			return uint32(s) - 1
		}
	}
	id := uint32(len(t.all))
	t.all = append(t.all, *v)
	t.slots[at] = part | uint64(id+1)
	if len(t.all) > len(t.slots)/2 {
		t.grow()
	}
	return id
}

func (t *table[T]) grow() {
	t.slots = make([]uint64, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for id := range t.all {
		h := maphash.Comparable(t.seed, t.all[id])
		at := h & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = h>>32<<32 | uint64(id+1)
	}
}

// A stepKey is all that one call of Step depends on.
type stepKey struct {
	state      uint32
	mono, wall int16
	seen       uint16
	who        uint8
	kind       EventKind
	out        Outcome
	rev, term  uint8
	exit       uint8
	tokens     uint8
	bars       Bars
	doubt      int16
}

// hash mixes all of k.
func (k *stepKey) hash() uint64 {
	a := uint64(k.state) | uint64(uint16(k.mono))<<32 | uint64(uint16(k.wall))<<48
	b := uint64(k.seen) | uint64(k.who)<<16 | uint64(k.kind)<<24 | uint64(k.out)<<32 | uint64(k.rev)<<40 |
		uint64(k.term)<<48 | uint64(k.exit)<<56
	c := uint64(k.tokens) | uint64(k.bars)<<8 | uint64(uint16(k.doubt))<<16
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xbf58476d1ce4e5b9)
	hi2, lo2 := bits.Mul64(hi^lo^c, 0x94d049bb133111eb)
	return hi2 ^ lo2
}

// A memo remembers what came of each call of Step.
type memo struct {
	slots []memoSlot
	all   []stepResult
}

type memoSlot struct {
	key    stepKey
	result uint32 // its place in all plus 1; 0 is empty
}

// at returns the result for k, which is new if it was not there before. It is
// good until the next call.
func (m *memo) at(k *stepKey) (r *stepResult, isNew bool) {
	if len(m.all) >= len(m.slots)/2 {
		m.grow()
	}
	s := &m.slots[m.place(k)]
	if s.result == 0 {
		m.all = append(m.all, stepResult{})
		s.key, s.result = *k, uint32(len(m.all))
		return &m.all[len(m.all)-1], true
	}
	return &m.all[s.result-1], false
}

func (m *memo) place(k *stepKey) uint64 {
	mask := uint64(len(m.slots) - 1)
	at := k.hash() & mask
	for m.slots[at].result != 0 && m.slots[at].key != *k {
		at = (at + 1) & mask
	}
	return at
}

func (m *memo) grow() {
	old := m.slots
	m.slots = make([]memoSlot, max(1<<10, 2*len(old)))
	for i := range old {
		if old[i].result != 0 {
			m.slots[m.place(&old[i].key)] = old[i]
		}
	}
}

// small is v, or the nearest number that there is room for: later than every
// instant of a world.
func small(v int64) int32 {
	return int32(min(max(v, math.MinInt32), math.MaxInt32))
}

// The explorer distinguishes worlds by their bytes, so each byte has to be part
// of a field: the content of padding is undefined.
func TestAWorldIsItsBytes(t *testing.T) {
	var sum func(reflect.Type) uintptr
	sum = func(ty reflect.Type) (n uintptr) {
		switch ty.Kind() {
		case reflect.Struct:
			for f := range ty.Fields() {
				n += sum(f.Type)
			}
		case reflect.Array:
			n = uintptr(ty.Len()) * sum(ty.Elem())
		case reflect.Pointer, reflect.String, reflect.Slice, reflect.Map, reflect.Interface, reflect.Float64:
			t.Errorf("a world has a %v", ty)
		default:
			n = ty.Size()
		}
		return n
	}
	if ty := reflect.TypeFor[world](); sum(ty) != ty.Size() {
		t.Errorf("the fields of a world have %d bytes, and it has %d", sum(ty), ty.Size())
	}
}

// The explorer's tables hold what Go's maps would hold.
func TestTablesAreMaps(t *testing.T) {
	r := random(t)
	var m marks
	notes := map[fingerprint]uint16{}
	var calls memo
	states := map[stepKey]uint32{}
	words := newTable[[2]uint16]()
	numbers := map[[2]uint16]uint32{{}: 0}
	for range 20_000 {
		// Few values, so that many come again, and places that collide.
		id := fingerprint{r.Uint64N(64) | 1, r.Uint64N(64) << 40}
		note, old := notes[id]
		if isNew := m.add(id); isNew == old || m.note(id) != note {
			t.Fatalf("%x is new: %v, with note %d, want %d", id, isNew, m.note(id), note)
		}
		notes[id] = uint16(r.Uint32())
		m.set(id, notes[id])

		k := stepKey{state: r.Uint32N(40), mono: int16(r.IntN(40)), tokens: uint8(r.IntN(8)), doubt: int16(r.IntN(3))}
		state, known := states[k]
		if got, isNew := calls.at(&k); isNew == known || got.state != state {
			t.Fatalf("%+v is new: %v, and leads to %d, want %d", k, isNew, got.state, state)
		} else {
			states[k] = r.Uint32()
			got.state = states[k]
		}

		v := [2]uint16{uint16(r.IntN(90)), uint16(r.IntN(90))}
		if _, known := numbers[v]; !known {
			numbers[v] = uint32(len(numbers))
		}
		if got := words.id(&v); got != numbers[v] || words.all[got] != v {
			t.Fatalf("%v is number %d, want %d", v, got, numbers[v])
		}
	}
	if m.n != len(notes) || len(calls.all) != len(states) || len(words.all) != len(numbers) {
		t.Errorf("%d, %d and %d are held, want %d, %d and %d", m.n, len(calls.all), len(words.all), len(notes), len(states), len(numbers))
	}
}
