package pgstore_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// The rights are those in the package documentation.
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
	if r, err := trial.Check(t, candidate); err != nil || len(r.Warnings) > 0 || r.Age == 0 {
		t.Fatalf("a candidate: %+v, %v", r, err)
	}
	observer := over(t, poolOf(t, srv.DSN("observer")), pgstore.Options{Every: deafClock})
	h := trial.Listen(t, observer, "group")
	listening(t, srv, observer)
	rev := trial.Must(t, candidate, store.Write{Key: "group", Value: []byte("v")})
	rev = trial.Must(t, candidate, store.Write{Key: "group", Expected: rev, Value: []byte("w")})
	h.Until("a candidate's write", func(e store.Entry) bool { return e.Revision == rev })
	if r, err := observer.Check(trial.Within(t), store.CheckRequest{}); err != nil || len(r.Warnings) > 0 {
		t.Errorf("an observer: %+v, %v", r, err)
	}

	_, err = trial.Check(t, observer)
	trial.Outcome(t, err, store.Permanent, "leader_records_swap", "EXECUTE")
	_, err = observer.CompareAndSwap(trial.Within(t), store.Write{Key: "group", Expected: rev})
	trial.Outcome(t, err, store.Permanent, "EXECUTE")
	stranger := over(t, poolOf(t, srv.DSN("stranger")), pgstore.Options{})
	_, err = stranger.Get(trial.Within(t), "group")
	trial.Outcome(t, err, store.Permanent, "SELECT")
	_, err = stranger.CompareAndSwap(trial.Within(t), store.Write{Key: "group", Expected: rev})
	trial.Outcome(t, err, store.Permanent)
	making := over(t, poolOf(t, srv.DSN("stranger")), pgstore.Options{Table: "other", Create: true})
	_, err = trial.Check(t, making)
	trial.Outcome(t, err, store.Permanent)

	// A candidate writes by the function alone, which states a revision.
	for _, text := range []string{
		"UPDATE leader_records SET value = ''", "DELETE FROM leader_records", "INSERT INTO leader_records (key, value) VALUES ('x', '')",
		"TRUNCATE leader_records", "SELECT nextval('leader_records_revision')",
	} {
		if _, err := poolOf(t, srv.DSN("candidate")).Exec(trial.Within(t), text); err == nil {
			t.Errorf("a candidate may %s", text)
		}
	}
}
