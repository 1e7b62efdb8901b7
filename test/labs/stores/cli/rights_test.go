package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store/pgstore"
)

// The rights are those that every role has of a function that is made, unless
// it is revoked.
func TestDoctorPrintsTheStatementThatRevokesARight(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	schema, err := pgstore.Schema("")
	if err != nil {
		t.Fatal(err)
	}
	srv.Exec(schema, "CREATE ROLE candidate LOGIN", "GRANT SELECT ON leader_records TO candidate",
		"GRANT EXECUTE ON FUNCTION leader_records_swap TO candidate",
		"GRANT EXECUTE ON FUNCTION leader_records_draw, leader_records_tell TO PUBLIC")
	d := desk{t, srv.DSN("candidate")}
	printed := func() (statements string) {
		t.Helper()
		out, _ := d.try(0, "doctor", "-o", "json")
		var report struct {
			Findings []struct{ Status, Text string }
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		for _, f := range report.Findings {
			if _, after, found := strings.Cut(f.Text, "run: "); found && f.Status == "warn" {
				statements += after
			}
		}
		return statements
	}
	statements := printed()
	for _, function := range []string{"draw", "tell"} {
		if want := `REVOKE EXECUTE ON FUNCTION "public"."leader_records_` + function + `"() FROM PUBLIC`; !strings.Contains(statements, want) {
			t.Fatalf("%q lacks %q", statements, want)
		}
	}
	srv.Exec(statements)
	if again := printed(); again != "" {
		t.Errorf("once they were run: %q", again)
	}
}
