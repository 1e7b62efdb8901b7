package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/."

var keyClaims = []claim{
	{"KeysAreIndependent", 0, func(x *exam) {
		s := x.open()
		a1 := x.put(s, "a", 0, "a1")
		b1 := x.put(s, "b", 0, "b1")
		a2 := x.put(s, "a", a1, "a2")
		b2 := x.put(s, "b", b1, "b2")
		x.holds(s, "a", a2, []byte("a2"), false)
		x.holds(s, "b", b2, []byte("b2"), false)
	}},
	{"EveryLegalCharacterIsTakenInAKey", 0, func(x *exam) {
		s := x.open()
		for _, c := range alphabet {
			k := "k" + string(c) + "k"
			rev := x.put(s, k, 0, k)
			x.holds(s, k, rev, []byte(k), false)
		}
	}},
	{"SimilarKeysAreDistinct", 0, func(x *exam) {
		s := x.open()
		keys := []string{"Group", "group", "GROUP", "gro.up", "gro/up", "gro-up", "gro_up", "gro=up", "group.", "/group", "group/",
			"_ctl.group", "_ctl", "ctl.group", "group.x", "group.x.y", "group-x", "1", "01", "0", "-", "_", "=", "/", "//"}
		revs := map[string]uint64{}
		for _, k := range keys {
			if store.ValidKey(k) {
				revs[k] = x.put(s, k, 0, k) // expected 0: no other spelling may have made it
			}
		}
		for k, rev := range revs {
			x.holds(s, k, rev, []byte(k), false)
		}
	}},
	{"LongestKeyIsTaken", 0, func(x *exam) {
		s := x.open()
		a, b := strings.Repeat("k", store.MaxKey-1)+"a", strings.Repeat("k", store.MaxKey-1)+"b"
		ra, rb := x.put(s, a, 0, "a"), x.put(s, b, 0, "b")
		x.holds(s, a, ra, []byte("a"), false)
		x.holds(s, b, rb, []byte("b"), false)
	}},
	{"InvalidKeyIsRefusedOrKeptFaithfully", async, func(x *exam) {
		s := x.open()
		rev := x.put(s, "a.b", 0, "victim")
		for _, k := range []string{"", ".", ".a", "a.", "a..b", "a.*", "a.>", "*", ">", "a b", "a\nb", "a\r\nb", "a\x00b", "ä", "a\xff", "a:b", "a%2Eb",
			"../a", strings.Repeat("k", store.MaxKey+1), strings.Repeat("k", 5000), strings.Repeat("k", 1<<17)} {
			x.invalidKey(s, k)
		}
		x.holds(s, "a.b", rev, []byte("victim"), false)
		x.put(x.open(), "a.c", 0, "still serving")
		x.put(s, "a.b", rev, "still connected")
	}},
}

// invalidKey demands that a key outside the common alphabet is refused as such
// by every method, or else works as any other key.
func (x *exam) invalidKey(s store.Store, k string) {
	x.Helper()
	rev, err := x.cas(s, store.Write{Key: k, Value: []byte("v")})
	if err == nil {
		x.holds(s, k, rev, []byte("v"), false)
		return
	}
	if !errors.Is(err, store.ErrInvalid) {
		x.Errorf("CompareAndSwap(%s): %v; want store.ErrInvalid", brief([]byte(k)), err)
	}
	if e, err := x.read(s, k); err == nil && e.Revision != 0 || err != nil && !errors.Is(err, store.ErrInvalid) {
		x.Errorf("Get(%s) = revision %d, %v; want store.ErrInvalid or an unknown key", brief([]byte(k)), e.Revision, err)
	}
}

var valueClaims = []claim{
	{"ValuesRoundTrip", 0, func(x *exam) {
		s, rev := x.open(), uint64(0)
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		for _, v := range [][]byte{[]byte("x"), {0}, {0, 0, 0}, every, {0xff, 0xfe, 0xc0, 0x80}, []byte("line\r\n\r\nline\n"), []byte(" blanks "),
			[]byte(`{"id":"a","token":"b"}`), []byte("null"), []byte("KV-Operation: DEL\r\n\r\n"), []byte("it's \"quoted\" `$1` %s \\")} {
			for _, tombstone := range []bool{false, true} {
				rev = x.must(s, store.Write{Key: key, Expected: rev, Value: v, Tombstone: tombstone})
				x.holds(s, key, rev, v, tombstone)
			}
		}
	}},
	{"EmptyValueIsAValueAndNoDeletion", 0, func(x *exam) {
		s := x.open()
		rev := x.must(s, store.Write{Key: key, Value: nil})
		x.holds(s, key, rev, nil, false)
		rev = x.must(s, store.Write{Key: key, Expected: rev, Value: []byte{}})
		x.holds(s, key, rev, nil, false)
		x.conflicts(s, key, 0)
	}},
	{"LargestValueRoundTrips", 0, func(x *exam) {
		s, rev := x.open(), uint64(0)
		for _, size := range []int{store.MaxValue, max(x.caps.MaxValue, store.MaxValue)} {
			for _, tombstone := range []bool{false, true} {
				v := bytes.Repeat([]byte{0, 0xff, '"', '\n'}, size/4+1)[:size]
				rev = x.must(s, store.Write{Key: key, Expected: rev, Value: v, Tombstone: tombstone})
				x.holds(s, key, rev, v, tombstone)
			}
		}
	}},
	{"OversizeValueIsInvalidAndChangesNothing", async, func(x *exam) {
		if x.caps.MaxValue == 0 {
			x.Skip("Caps.MaxValue is 0: the store has no known limit")
		}
		s := x.open()
		rev := x.put(s, key, 0, "kept")
		for _, size := range []int{x.caps.MaxValue + 1, 2 * x.caps.MaxValue} {
			_, err := x.cas(s, store.Write{Key: key, Expected: rev, Value: make([]byte, size)})
			if !errors.Is(err, store.ErrInvalid) {
				x.Fatalf("a value of %d bytes: %v; want store.ErrInvalid", size, err)
			}
			if c := store.Classify(err); c != store.Permanent {
				x.Fatalf("a value of %d bytes is refused as %v; want permanent", size, c)
			}
		}
		x.holds(s, key, rev, []byte("kept"), false)
		x.put(s, key, rev, "still connected")
	}},
	{"CallersBufferIsNotKept", async, func(x *exam) {
		s := x.open()
		buf := []byte("before")
		rev := x.must(s, store.Write{Key: key, Value: buf})
		copy(buf, "AFTER!")
		x.holds(s, key, rev, []byte("before"), false)
		copy(buf, "vacant")
		rev = x.must(s, store.Write{Key: key, Expected: rev, Value: buf, Tombstone: true})
		copy(buf, "AFTER!")
		x.holds(s, key, rev, []byte("vacant"), true)
	}},
	{"CallersBufferIsNotChanged", 0, func(x *exam) {
		s := x.open()
		buf := append(make([]byte, 0, 64), "value"...)
		rev := x.must(s, store.Write{Key: key, Value: buf})
		x.put(s, key, rev, "other")
		if string(buf) != "value" || !bytes.Equal(buf[5:cap(buf)], make([]byte, cap(buf)-5)) {
			x.Fatalf("the store wrote into the caller's buffer: %q", buf[:cap(buf)])
		}
	}},
	{"DeliveredValueNeverChanges", 0, func(x *exam) {
		s := x.open()
		rev := x.put(s, key, 0, "value 00")
		e := x.reach(s, key, rev)
		for i := range 20 {
			rev = x.put(s, key, rev, fmt.Sprintf("other %02d", i))
			x.reach(s, key, rev)
		}
		if string(e.Value) != "value 00" {
			x.Fatalf("an entry's value became %q after it was returned", e.Value)
		}
	}},
}
