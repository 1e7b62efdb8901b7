package record_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

func TestTokensAreUUIDsAndDiffer(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		token := record.NewToken()
		if !uuid.MatchString(token) || seen[token] {
			t.Fatalf("token %q, seen before: %t", token, seen[token])
		}
		seen[token] = true
	}
}

// Candidates of earlier versions give their record to a successor without a
// vacancy. Its record contains how the previous term ended.
func TestAPriorIsRead(t *testing.T) {
	seen, r := record.Read(entry(`{"id":"a","token":"t","ttl":3000,"prior":{"term":7,"reason":"resigned"}}`))
	if want := (machine.Prior{Term: 7, Reason: machine.ReasonResigned}); seen.Kind != machine.Held || r.Prior == nil || seen.Rec.Prior != want {
		t.Errorf("%v, prior %v, want %v", seen.Kind, seen.Rec.Prior, want)
	}
}

// The previous term is history: a record with nonsense about it is a holder's
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

// A holder's record never settles who led before, whatever it contains.
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
