package ballot

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

var acceptors = []Acceptor{
	{Set: 7, Promised: Ballot{3, 1}},
	{Set: 7, Promised: Ballot{3, 1}, Marked: true},
	{Set: 7, Promised: Ballot{3, 2}, Ballot: Ballot{3, 1}, Founding: true},
	{Set: 7, Promised: Ballot{3, 2}, Ballot: Ballot{3, 1}, Founding: true, Value: Value{Version: 5, Tombstone: true}},
	{Set: 7, Promised: Ballot{4, 0}, Ballot: Ballot{3, 1}},
	{Set: 1 << 63, Promised: Ballot{1 << 60, 1 << 63}, Ballot: Ballot{1 << 60, 5}, Value: Value{ID: ID{1, 15: 255}, Version: 1<<53 - 1, Data: "a\nb\n"}},
	{Set: 7, Promised: Ballot{4, 0}, Ballot: Ballot{3, 1}, Value: Value{ID: ID{2}, Version: 9, Tombstone: true, Data: "vacancy", Ancestors: [MaxChain]Short{1}}},
	{Set: 1 << 63, Promised: Ballot{1 << 63, 1 << 63}, Ballot: Ballot{1 << 63, 5}, Value: Value{
		ID: ID{1, 15: 255}, Version: 1<<53 - 1, Ancestors: [MaxChain]Short{9, 8, 7, 1 << 63},
	}},
}

func TestEnvelopeReturnsWhatItWasGiven(t *testing.T) {
	for _, a := range acceptors {
		value, tombstone := Encode(&a)
		got, err := Decode(store.Entry{Key: "k", Revision: 1, Value: value, Tombstone: tombstone})
		if err != nil || got != a {
			t.Errorf("Decode(%q) = %+v, %v, want %+v", value, got, err, a)
		}
		if n := bytes.IndexByte(value, '\n'); n > MaxHeader {
			t.Errorf("header has %d bytes, more than %d", n, MaxHeader)
		}
	}
}

func TestEnvelopeThatIsForeign(t *testing.T) {
	value, _ := Encode(&acceptors[5])
	good := string(value)
	value, _ = Encode(&acceptors[6])
	chained := string(value)
	for name, bad := range map[string]string{
		"empty":                      "",
		"another tool's":             "hello",
		"cut":                        good[:40],
		"a set of 0":                 strings.Replace(good, "8000000000000000", "0000000000000000", 1),
		"accepted above a promise":   strings.Replace(good, " 1152921504606846976.8", " 5.8", 1),
		"a version beyond 2^53":      strings.Replace(good, "9007199254740991", "9007199254740992", 1),
		"another spelling":           strings.Replace(good, "9007199254740991", "09007199254740991", 1),
		"an unknown kind":            strings.Replace(good, " value\n", " other\n", 1),
		"a promise with a value":     strings.Replace(good, " value\n", " promise\n", 1),
		"a founding value of a call": strings.Replace(good, " value\n", " founding\n", 1),
		"a short ID":                 strings.Replace(good, "ff 9", " 9", 1),
		"a value of no call":         strings.Replace(good, "010000000000000000000000000000ff", "00000000000000000000000000000000", 1),
		"an ancestor of no call":     strings.Replace(chained, "1 value\n", "0 value\n", 1),
		"an ancestor without end":    strings.Replace(chained, " value\n", ", value\n", 1),
		"more ancestors than it may": strings.Replace(chained, " value\n", strings.Repeat(","+strings.Repeat("1", 16), MaxChain)+" value\n", 1),
		"ancestors below version 1":  strings.Replace(chained, " 9 ", " 1 ", 1),
		"no field of ancestors":      strings.Replace(good, " - ", " ", 1),
	} {
		if bad == good || bad == chained {
			t.Fatalf("%s: nothing was replaced", name)
		}
		got, err := Decode(store.Entry{Key: "k", Revision: 1, Value: []byte(bad)})
		if want := (Acceptor{Marked: true}); err != nil || got != want {
			t.Errorf("%s: Decode(%q) = %+v, %v, want %+v", name, bad, got, err, want)
		}
	}
	if got, err := Decode(store.Entry{Key: "k"}); err != nil || got != (Acceptor{}) {
		t.Errorf("Decode of an empty register = %+v, %v", got, err)
	}
	for _, format := range []string{"/1 ", "/3 "} {
		other := []byte(strings.Replace(good, "/2 ", format, 1))
		if _, err := Decode(store.Entry{Key: "k", Revision: 1, Value: other}); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("Decode of format %s: %v, want ErrPermanent", format, err)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, a := range acceptors {
		value, tombstone := Encode(&a)
		f.Add(value, tombstone)
	}
	f.Add([]byte("hello"), false)
	f.Fuzz(func(t *testing.T, value []byte, tombstone bool) {
		a, err := Decode(store.Entry{Key: "k", Revision: 1, Value: value, Tombstone: tombstone})
		if err != nil || a == (Acceptor{Marked: true}) {
			return
		}
		again, _ := Encode(&a)
		if !bytes.Equal(again, value) {
			t.Errorf("%q decodes to %+v, which encodes to %q", value, a, again)
		}
	})
}
