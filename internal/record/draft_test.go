package record_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// ordinary is a record whose fields need no escapes in JSON.
func ordinary() record.Record {
	return record.Record{
		ID: "worker-1", Token: "3f9a6f8d-1a2b-4cde-9f1a-c0b123456789", Priority: -7,
		Meta: map[string]string{"zone": "eu-west", "rack": "7"}, TTL: 5000, Term: 1 << 53, Renewal: 17, Nonce: 5,
		Address: "[::1]:4222", Drift: 0.1, Version: "1.2.3",
		Params: params("\x00\xff?"), Standings: []record.Standing{{Priority: 3, Version: "1.2.3"}, {Age: 1}},
		Acquired: 1795201843456, Renewed: 1795201999999,
	}
}

// sameAsParsed checks a draft: its bytes equal encoding/json's, and it reads
// them as Read does.
func sameAsParsed(t *testing.T, r record.Record) {
	t.Helper()
	want, jsonErr := json.Marshal(r)
	d, err := r.Draft(6)
	if err != nil {
		if jsonErr == nil && len(want) <= store.MaxValue {
			t.Fatalf("%+v: %v", r, err)
		}
		return
	}
	if !bytes.Equal(d.Value, want) || d.Expected != 6 {
		t.Fatalf("%+v: %s on %d, want\n%s", r, d.Value, d.Expected, want)
	}
	const revision = 1<<53 + 1 // above the terms that are drafted
	for _, e := range []store.Entry{
		{Key: "g", Revision: revision, Value: want}, {Key: "g", Revision: revision, Value: want, Tombstone: true}, {Key: "g"},
		{Key: "g", Revision: revision, Tombstone: true}, {Key: "g", Revision: revision, Value: want[1:]}, {Key: "g", Value: want},
		{Key: "g", Revision: 7, Value: want}, {Key: "g", Revision: 7, Value: want, Tombstone: true},
	} {
		seen, got := machine.Seen{Rev: 1, Behind: 1, Rec: machine.Record{Why: "x"}}, full() // of an earlier entry
		d.Read(&e, &seen, &got)
		wantSeen, wanted := record.Read(e)
		if seen != wantSeen || !reflect.DeepEqual(got, wanted) {
			t.Fatalf("%s, tombstone %v: %+v %+v, want\n%+v %+v", e.Value, e.Tombstone, seen, got, wantSeen, wanted)
		}
	}
}

// FuzzDraft drafts whatever the core and the settings may ask for, and more.
func FuzzDraft(f *testing.F) {
	f.Add("a", "t", 1, "k", "v", int64(3000), uint64(4), uint64(5), "x", 0.1, "1.2", 3, 0, "resigned", "by", "why", byte(0), []byte("{}"))
	f.Add("a<", "t", -1, "k&", "\x7f", int64(-1), uint64(1<<53+1), uint64(0), "\xff", 1e-7, "1 2", 3, -1, "", "\u2028", "\"", byte(255), []byte("\x00\xff"))
	f.Add("", "t", 0, "", "", int64(0), uint64(9), uint64(0), "", math.Copysign(0, -1), "", 0, 0, "expired", "b", "\\", byte(12), []byte{})
	f.Fuzz(func(t *testing.T, id, token string, priority int, key, value string, ttl int64, term, nonce uint64,
		address string, drift float64, version string, standing, age int, reason, by, why string, flags byte, connection []byte,
	) {
		r := record.Record{
			ID: id, Token: token, Priority: priority, TTL: ttl, Term: term, Renewal: term / 2, Nonce: nonce, Address: address,
			Drift: record.Fraction(drift), Version: version, Reason: reason, By: by, Why: why, Successor: by, Settled: flags&2 != 0,
			Acquired: record.Moment(term), Renewed: record.Moment(nonce),
		}
		if connection != nil {
			r.Params = params(string(connection))
		}
		if flags&4 != 0 {
			r.Meta = map[string]string{key: value, value: key}
		}
		for range flags >> 4 {
			r.Standings = append(r.Standings, record.Standing{Priority: standing, Version: version, Age: age})
		}
		if flags&8 != 0 {
			r.Prior = &record.Prior{Term: nonce, Reason: why}
		}
		sameAsParsed(t, r)
	})
}

// A value is taken at random for each field of a record, alone and among
// ordinary ones. Among them are all that encoding/json does not copy.
func TestDraftReadsAsTheParserDoes(t *testing.T) {
	sameAsParsed(t, ordinary())
	sameAsParsed(t, vacancy())
	sameAsParsed(t, full())
	sameAsParsed(t, record.Record{ID: "a", Meta: map[string]string{}, Standings: []record.Standing{}})
	sameAsParsed(t, record.Record{})
	sameAsParsed(t, record.Record{ID: strings.Repeat("x", store.MaxValue)})
	for c := range 256 {
		sameAsParsed(t, record.Record{ID: "a" + string([]byte{byte(c)}) + "b"})
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the same records each time
	for range 5000 {
		r := ordinary()
		fields := reflect.ValueOf(&r).Elem()
		for range 1 + rng.IntN(3) {
			f := fields.Field(rng.IntN(fields.NumField()))
			f.Set(anyValue(rng, f.Type()))
		}
		sameAsParsed(t, r)
	}
}

// anyValue returns a value of a type, out of those that make a difference
// somewhere.
func anyValue(rng *rand.Rand, of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.String:
		texts := []string{"", "a", "é", "\xff", "<>&", `"`, `\`, "\n", "\x00", "\x7f", "\u2028", "�", strings.Repeat("r", 600), "1.2-x_Y+3"}
		v.SetString(texts[rng.IntN(len(texts))])
	case reflect.Uint8:
		v.SetUint(uint64(rng.IntN(256)))
	case reflect.Int, reflect.Int64:
		numbers := []int64{0, 1, -1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64}
		v.SetInt(numbers[rng.IntN(len(numbers))])
	case reflect.Uint64:
		numbers := []uint64{0, 1, 1 << 47, 1<<47 + 1, 1 << 53, 1<<53 + 1, math.MaxUint64}
		v.SetUint(numbers[rng.IntN(len(numbers))])
	case reflect.Float64:
		numbers := []float64{0, math.Copysign(0, -1), 1e-6, 9.9e-7, 1e-300, 0.1, 1. / 3, math.Nextafter(1, 0), 1, -0.1, 1e21, math.NaN(), math.Inf(1)}
		v.SetFloat(numbers[rng.IntN(len(numbers))])
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Map:
		v.Set(reflect.MakeMap(of))
		for range rng.IntN(3) {
			v.SetMapIndex(anyValue(rng, of.Key()), anyValue(rng, of.Elem()))
		}
	case reflect.Slice:
		for range rng.IntN(record.MaxStandings + 3) {
			v = reflect.Append(v, anyValue(rng, of.Elem()))
		}
		if v.Len() > 0 && rng.IntN(2) == 0 { // all alike, or a long one would hardly ever be valid
			for i := range v.Len() {
				v.Index(i).Set(v.Index(0))
			}
		}
	case reflect.Pointer:
		if rng.IntN(4) > 0 {
			v.Set(reflect.New(of.Elem()))
			v.Elem().Set(anyValue(rng, of.Elem()))
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			f.Set(anyValue(rng, f.Type()))
		}
	default:
		panic("a record has a field of a new kind: " + of.String())
	}
	return v
}

// A leader reads each of its renewals back. The stack and memory that its
// goroutine needs for that, thousands of leaders need every second.
func TestOrdinaryDraftIsReadBackWithoutParsing(t *testing.T) {
	ours := ordinary()
	d, err := ours.Draft(6)
	if err != nil {
		t.Fatal(err)
	}
	e := store.Entry{Key: "g", Revision: 1<<53 + 1, Value: bytes.Clone(d.Value)}
	var (
		seen machine.Seen
		r    record.Record
	)
	if n := testing.AllocsPerRun(100, func() {
		d.Read(&e, &seen, &r)
		if seen.Kind != machine.Held {
			t.Error(seen.Kind)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A leader drafts each renewal. The draft and its bytes alone take memory.
func TestADraftOfARenewalHasItsBytesInOnePiece(t *testing.T) {
	c := machine.Record{
		ID: "reports-7d9c6b5f4-x2x9k", Token: "3f9a6f8d-1a2b-4cde-9f1a-c0b123456789", TTL: 15 * time.Second, Term: 1795201843456290, Renewal: 86_400,
		Nonce: 1 << 52,
	}
	about := record.About{Drift: 0.1, Transitions: 41, Acquired: 1795201843456, Renewed: 1795288243456}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := record.NewDraft(&c, &about, 7); err != nil {
			t.Error(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

// Numbers of few digits are written without strconv: all of them, and their
// neighbors.
func TestDraftOfAFractionEqualsItsJSON(t *testing.T) {
	for n := range 10_001 {
		f := float64(n) / 1e4
		for _, f := range []float64{f, math.Nextafter(f, 0), math.Nextafter(f, 1), f / 16} {
			r := ordinary()
			r.Drift = record.Fraction(f)
			sameAsParsed(t, r)
		}
	}
}

func TestDraftIsDecidedByAnyLaterState(t *testing.T) {
	r := ordinary()
	d, err := r.Draft(6)
	if err != nil {
		t.Fatal(err)
	}
	for rev, want := range []bool{0: false, 5: false, 6: false, 7: true, 8: true} {
		if got := d.Decided(uint64(rev)); got != want {
			t.Errorf("revision %d after 6: %v", rev, got)
		}
	}
	if d = nil; d.Decided(7) {
		t.Error("no draft is decided")
	}
}
