package record_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

func TestAClaimHasATokenThatOnlyItsWordMakes(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		token, word := record.NewClaim()
		if !uuid.MatchString(token) || token != record.Token(word) || strings.Contains(word, token) || strings.Contains(token, word) {
			t.Fatalf("token %q of word %q", token, word)
		}
		if seen[token] || seen[word] {
			t.Fatal("twice the same")
		}
		seen[token], seen[word] = true, true
	}
	// What other versions of this program must compute from the same word.
	if got, want := record.Token("open sesame"), "41ef4bb0-b236-81e6-a301-aac36066912d"; got != want {
		t.Errorf("Token = %q, want %q", got, want)
	}
}

func TestAnOfferIsReadAsItWasMade(t *testing.T) {
	token, word := record.NewClaim()
	o := record.Offer{Word: word, Revision: 12, Reason: "stopped"}
	for _, settled := range []bool{false, true} {
		o.Settled = settled
		seen, ok := record.ReadOffer(mustEncode(t, o))
		want := machine.Seen{Kind: machine.Vacant, Rev: 12, Rec: machine.Record{Token: token, Reason: machine.ReasonStopped, Settled: settled}}
		if !ok || seen != want {
			t.Errorf("%+v, %t, want %+v", seen, ok, want)
		}
	}
}

func TestWhatIsNoOfferIsNone(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":           "",
		"no JSON":           "resigned",
		"another type":      `["word"]`,
		"no word":           `{"revision":12,"reason":"stopped"}`,
		"an empty word":     `{"word":"","reason":"stopped"}`,
		"no reason":         `{"word":"w","revision":12}`,
		"a long reason":     `{"word":"w","reason":"` + strings.Repeat("x", record.MaxReason+1) + `"}`,
		"a large revision":  `{"word":"w","revision":9007199254740993,"reason":"stopped"}`,
		"a negative number": `{"word":"w","revision":-1,"reason":"stopped"}`,
		"too long":          `{"word":"` + strings.Repeat("w", store.MaxValue) + `","reason":"stopped"}`,
		"a record":          string(mustEncode(t, full())),
		"a vacancy":         string(mustEncode(t, vacancy())),
	} {
		if seen, ok := record.ReadOffer([]byte(text)); ok {
			t.Errorf("%s: %+v", name, seen)
		}
	}
}

// The term before is history: a record that says nonsense of it is a holder's
// all the same.
func TestAPriorThatMakesNoSenseIsDropped(t *testing.T) {
	for _, prior := range []string{
		`{"term":9007199254740993,"reason":"stopped"}`, `{"term":1,"reason":"` + strings.Repeat("x", record.MaxReason+1) + `"}`,
	} {
		seen, r := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"prior":` + prior + `}`))
		if seen.Kind != machine.Held || r.Prior != nil || seen.Rec.Prior != (machine.Prior{}) {
			t.Errorf("%s: %v, prior %v", prior, seen.Kind, r.Prior)
		}
	}
}

func TestTheTermBeforeIsWrittenAndRead(t *testing.T) {
	held := machine.Record{ID: "a", Token: "t", TTL: 3e9, Prior: machine.Prior{Term: 7, Reason: machine.ReasonResigned}}
	seen, _ := record.Read(store.Entry{Key: "g", Revision: 8, Value: mustEncode(t, record.Of(held, record.About{}))})
	if seen.Rec != held {
		t.Errorf("%+v, want %+v", seen.Rec, held)
	}
}

// A holder's record says nothing of those before it, whatever stands in it.
func TestOnlyAVacancyIsSettled(t *testing.T) {
	for _, rec := range []machine.Record{
		{Token: "t", Reason: machine.ReasonStopped, Settled: true}, {Token: "t", Reason: machine.ReasonStopped},
	} {
		e := store.Entry{Key: "g", Revision: 8, Tombstone: true, Value: mustEncode(t, record.Of(rec, record.About{}))}
		if seen, _ := record.Read(e); seen.Kind != machine.Vacant || seen.Rec != rec {
			t.Errorf("%+v, want %+v", seen.Rec, rec)
		}
	}
	if seen, _ := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"settled":true}`)); seen.Kind != machine.Held || seen.Rec.Settled {
		t.Errorf("%+v", seen)
	}
}

// FuzzReadOffer reads whatever comes as an offer.
func FuzzReadOffer(f *testing.F) {
	f.Add([]byte(`{"word":"w","revision":12,"reason":"stopped"}`))
	f.Add([]byte(`{"word":"","reason":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		seen, ok := record.ReadOffer(b)
		if ok != (seen.Kind == machine.Vacant) || ok && (seen.Rec.Token == "" || seen.Rec.Reason == "" || seen.Rec.ID != "") {
			t.Fatalf("%+v, %t", seen, ok)
		}
	})
}

func TestANominationIsReadAsItWasMadeAndNothingElseIsOne(t *testing.T) {
	n := record.Nomination{Nominee: "host-1", Revision: 12}
	if back, ok := record.ReadNomination(mustEncode(t, n)); !ok || back != n {
		t.Errorf("%+v, %t", back, ok)
	}
	if seen, ok := record.ReadOffer(mustEncode(t, n)); ok {
		t.Errorf("taken for an offer: %+v", seen)
	}
	for name, text := range map[string]string{
		"nothing":       "",
		"no nominee":    `{"revision":12}`,
		"a long name":   `{"nominee":"` + strings.Repeat("x", record.MaxName+1) + `","revision":12}`,
		"no revision":   `{"nominee":"a"}`,
		"a large one":   `{"nominee":"a","revision":9007199254740993}`,
		"an offer":      string(mustEncode(t, record.Offer{Word: "w", Revision: 12, Reason: "stopped"})),
		"too long":      `{"nominee":"a","revision":12,"x":"` + strings.Repeat("x", store.MaxValue) + `"}`,
		"another type":  `["a",12]`,
		"a record":      string(mustEncode(t, full())),
		"a negative id": `{"nominee":-1,"revision":12}`,
	} {
		if n, ok := record.ReadNomination([]byte(text)); ok {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// In whatever order two are heard, all take the same one for the nominee; what
// is said of a later record counts.
func TestOfNominationsForOneRecordTheLeastNameCounts(t *testing.T) {
	a, b, later := record.Nomination{Nominee: "a", Revision: 7}, record.Nomination{Nominee: "b", Revision: 7}, record.Nomination{Nominee: "b", Revision: 8}
	if !a.Replaces(b) || b.Replaces(a) || !later.Replaces(a) {
		t.Errorf("%t, %t, %t", a.Replaces(b), b.Replaces(a), later.Replaces(a))
	}
}
