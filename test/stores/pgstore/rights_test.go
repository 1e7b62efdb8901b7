package pgstore_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
)

// The rights are those of the package documentation.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	text, err := pgstore.Schema("")
	if err != nil {
		t.Fatal(err)
	}
	srv.Exec(text,
		"CREATE ROLE candidate LOGIN", "CREATE ROLE observer LOGIN", "CREATE ROLE stranger LOGIN",
		"GRANT SELECT ON leader_records TO candidate, observer",
		"GRANT EXECUTE ON FUNCTION leader_records_swap TO candidate")
	candidate := over(t, poolOf(t, srv.DSN("candidate")), pgstore.Options{Every: deafClock})
	if r, err := check(t, candidate); err != nil || len(r.Warnings) > 0 || r.Age == 0 {
		t.Fatalf("a candidate: %+v, %v", r, err)
	}
	observer := over(t, poolOf(t, srv.DSN("observer")), pgstore.Options{Every: deafClock})
	h := listen(t, observer, "group")
	listening(t, srv, observer)
	rev := must(t, candidate, store.Write{Key: "group", Value: []byte("v")})
	rev = must(t, candidate, store.Write{Key: "group", Expected: rev, Value: []byte("w")})
	h.until("a candidate's write", func(e store.Entry) bool { return e.Revision == rev })
	if r, err := observer.Check(within(t), store.CheckRequest{}); err != nil || len(r.Warnings) > 0 {
		t.Errorf("an observer: %+v, %v", r, err)
	}

	_, err = check(t, observer)
	outcome(t, err, store.Permanent, "leader_records_swap", "EXECUTE")
	_, err = observer.CompareAndSwap(within(t), store.Write{Key: "group", Expected: rev})
	outcome(t, err, store.Permanent, "EXECUTE")
	stranger := over(t, poolOf(t, srv.DSN("stranger")), pgstore.Options{})
	_, err = stranger.Get(within(t), "group")
	outcome(t, err, store.Permanent, "SELECT")
	_, err = stranger.CompareAndSwap(within(t), store.Write{Key: "group", Expected: rev})
	outcome(t, err, store.Permanent)
	making := over(t, poolOf(t, srv.DSN("stranger")), pgstore.Options{Table: "other", Create: true})
	_, err = check(t, making)
	outcome(t, err, store.Permanent)

	// A candidate writes by the function alone, which states a revision.
	for _, text := range []string{
		"UPDATE leader_records SET value = ''", "DELETE FROM leader_records", "INSERT INTO leader_records (key, value) VALUES ('x', '')",
		"TRUNCATE leader_records", "SELECT nextval('leader_records_revision')",
	} {
		if _, err := poolOf(t, srv.DSN("candidate")).Exec(within(t), text); err == nil {
			t.Errorf("a candidate may %s", text)
		}
	}
}
