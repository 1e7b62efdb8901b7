package record

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

func TestDrainKeysAreValidAndDistinct(t *testing.T) {
	long := strings.Repeat("x", MaxName)
	for id, want := range map[string]string{
		"host-1":         "_ctl._drain.host-1",
		"host.example/2": "_ctl._drain.host.example/2",
		"host 1":         "_ctl._drain.=aG9zdCAx",
		"=aG9zdCAx":      "_ctl._drain.=PWFHOXpkQ0F4",
		"a..b":           "_ctl._drain.=YS4uYg",
		".a":             "_ctl._drain.=LmE",
		"a.":             "_ctl._drain.=YS4",
		"é":              "_ctl._drain.=w6k",
	} {
		if got := DrainKey(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	seen := map[string]string{}
	for _, id := range []string{
		"", "a", "A", "=", "==", "=YQ", "a b", "a\u00a0b", long, long[1:], long[:180] + " ", long[:181] + " ", long[:182] + " ", long[:255] + " ", long[:244], long[:245], "*", ">", "a.*", "$x", "-", "_", "/",
	} {
		key := DrainKey(id)
		if other, is := seen[key]; is || !store.ValidKey(key) {
			t.Errorf("%q has the key %q, as has %q", id, key, other)
		}
		seen[key] = id
	}
}

func TestReadDrainJudgesTheContent(t *testing.T) {
	key := DrainKey("host 1")
	for name, c := range map[string]struct {
		e           store.Entry
		drained, ok bool
	}{
		"nothing":          {store.Entry{Key: key}, false, true},
		"a tombstone":      {store.Entry{Key: key, Revision: 3, Tombstone: true}, false, true},
		"an empty value":   {store.Entry{Key: key, Revision: 3}, false, false},
		"a drain":          {store.Entry{Key: key, Revision: 3, Value: []byte(`{"instance":"host 1","by":"ops"}`)}, true, true},
		"a later version":  {store.Entry{Key: key, Revision: 3, Value: []byte(`{"instance":"host 1","until":7}`)}, true, true},
		"another instance": {store.Entry{Key: key, Revision: 3, Value: []byte(`{"instance":"host 2"}`)}, false, false},
		"no instance":      {store.Entry{Key: key, Revision: 3, Value: []byte(`{}`)}, false, false},
		"garbage":          {store.Entry{Key: key, Revision: 3, Value: []byte(`drain`)}, false, false},
		"a long reason":    {store.Entry{Key: key, Revision: 3, Value: []byte(`{"instance":"host 1","reason":"` + strings.Repeat("x", MaxWhy+1) + `"}`)}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, drained, ok := ReadDrain(c.e); drained != c.drained || ok != c.ok {
				t.Errorf("drained %v, ok %v", drained, ok)
			}
		})
	}
}

func TestDrainKeepsUnknownFields(t *testing.T) {
	e := store.Entry{Key: DrainKey("a"), Revision: 1, Value: []byte(`{"instance":"a","until":7}`)}
	d, _, ok := ReadDrain(e)
	d.Taken = "p"
	b, err := d.Encode()
	var back map[string]any
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !ok || err != nil || back["until"] != 7.0 || back["taken"] != "p" {
		t.Errorf("%s: %v", b, err)
	}
}
