package pgstore_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// The statements that made tables before revisions followed the clock, and
// before trigger functions refused foreign tables.
var (
	//go:embed testdata/schema-before-clock.sql
	beforeClock string
	//go:embed testdata/schema-before-guard.sql
	beforeGuard string
)

// earlierSchema is the statement of an earlier version for the table.
func earlierSchema(earlier, table string) string {
	full := "public." + table
	return strings.NewReplacer("TABLE_NAME", full, "SEQUENCE_NAME", full+"_revision", "SWAP_NAME", full+"_swap",
		"DRAW_NAME", full+"_draw", "TELL_NAME", full+"_tell", "CHANNEL_NAME", table).Replace(earlier)
}

func TestATableOfAnEarlierVersionIsWarnedOfAndBroughtUpToDate(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	since := time.Now()
	srv.Exec(earlierSchema(beforeClock, table), "CREATE ROLE candidate LOGIN", "GRANT SELECT ON "+table+" TO candidate",
		"GRANT EXECUTE ON FUNCTION "+table+"_swap TO candidate",
		"SELECT pg_sleep(0.1)") // in which the clock goes on, and the sequence does not
	candidate := over(t, poolOf(t, srv.DSN("candidate")), pgstore.Options{Table: table, Create: true})
	warned := func(t *testing.T, s *pgstore.Store) {
		t.Helper()
		r, err := trial.Check(t, s)
		if err != nil || r.Forgetful || len(r.Warnings) != 3 || !strings.Contains(r.Warnings[0], "leader_keep") ||
			!strings.Contains(r.Warnings[1], "trigger functions") || !strings.Contains(r.Warnings[2], "REVOKE") {
			t.Errorf("%+v, %v", r, err)
		}
	}
	warned(t, candidate) // who does not own the table cannot change it, and goes on
	warned(t, over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table}))
	before := trial.Must(t, candidate, store.Write{Key: "group", Value: []byte("v")})
	if ago := time.Since(time.UnixMicro(int64(before))); ago < 100*time.Millisecond {
		t.Fatalf("the revision of a table of an earlier version is of %v ago, so that this shows nothing", ago)
	}

	trial.FindsNothingWrong(t, over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table, Create: true}), since)
	trial.FindsNothingWrong(t, candidate, since)
	if e := trial.Get(t, candidate, "group"); e.Revision != before || string(e.Value) != "v" {
		t.Errorf("the record is at %+v, and was written at revision %d", e, before)
	}
	begun := time.Now()
	after := trial.Must(t, candidate, store.Write{Key: "group", Expected: before, Value: []byte("w")})
	if drawn := time.UnixMicro(int64(after)); drawn.Before(begun.Truncate(time.Microsecond)) {
		t.Errorf("revision %d is of %v, before the write of %v", after, drawn, begun)
	}
}

// The clock is set back: a record has a revision that it has not reached.
func TestRevisionsGrowWhileTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	for name, remove := range map[string]string{"DELETE": "DELETE FROM ", "TRUNCATE": "TRUNCATE "} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			s := made(t, srv.DSN("lab"), table)
			ahead := uint64(time.Now().Add(24 * time.Hour).UnixMicro())
			write := func(expected uint64) {
				t.Helper()
				rev := trial.Must(t, s, store.Write{Key: "a", Expected: expected, Value: []byte("v")})
				if rev <= ahead {
					t.Errorf("revision %d follows %d", rev, ahead)
				}
				ahead = rev
			}
			trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
			srv.Exec("ALTER TABLE "+table+" DISABLE TRIGGER leader_draw",
				fmt.Sprintf("UPDATE %s SET revision = %d", table, ahead),
				"ALTER TABLE "+table+" ENABLE TRIGGER leader_draw")
			write(ahead)
			srv.Exec(remove + table)
			write(0)
			write(ahead)
		})
	}
}
