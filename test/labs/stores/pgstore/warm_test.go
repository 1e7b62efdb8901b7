package pgstore_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// A tracer notes the statements that a pool's connections have run.
type tracer struct {
	mu    sync.Mutex
	ended []statement
}

// A statement ran on the connection of a server's process.
type statement struct {
	pid uint32
	sql string
	err error
}

type statementKey struct{}

func (*tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, statementKey{}, d.SQL)
}

func (t *tracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryEndData) {
	sql, _ := ctx.Value(statementKey{}).(string)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = append(t.ended, statement{conn.PgConn().PID(), sql, d.Err})
}

// warmings returns those statements that do what a claim does, and undo it.
func (t *tracer) warmings() (all []statement) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.ended), func(s statement) bool { return !strings.HasPrefix(s.sql, "DO $warm$") })
}

// A follower's first write is a claim. Its session has done the like before, so
// that functions are compiled and statements planned, and nobody saw it.
func TestACandidatesSessionIsReadyForItsFirstWrite(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	watches := func(req store.CheckRequest) (*tracer, *pgstore.Store, *trial.Heard) {
		trace := &tracer{}
		// One connection in addition to the one that listens: it does all the
		// rest.
		pool := poolOf(t, srv.DSN("lab"), func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.MaxConns = trace, 1 })
		s := over(t, pool, pgstore.Options{Table: table, Every: 10 * time.Millisecond})
		if _, err := s.Check(trial.Within(t), req); err != nil {
			t.Fatal(err)
		}
		h := trial.Listen(t, s, "a")
		h.Until("the beginning", func(store.Entry) bool { return true })
		return trace, s, h
	}
	listens, err := pgx.Connect(trial.Within(t), srv.DSN("lab"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listens.Close(context.WithoutCancel(t.Context())) })
	if _, err := listens.Exec(trial.Within(t), "LISTEN "+table); err != nil {
		t.Fatal(err)
	}

	observer, _, _ := watches(store.CheckRequest{})
	candidate, s, h := watches(store.CheckRequest{TTL: time.Second, Key: "a"})
	done := candidate.warmings()
	if len(done) == 0 || slices.ContainsFunc(done, func(s statement) bool { return s.err != nil }) {
		t.Errorf("before its watch has started, a candidate's session has run %v", done)
	}
	if done := observer.warmings(); len(done) > 0 {
		t.Errorf("an observer's session has run %v", done)
	}

	// Nothing is left of it: the first notification, and the only row, is a
	// write.
	trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	for {
		n, err := listens.WaitForNotification(trial.Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(n.Payload, " probe ") {
			continue // by which a store finds out whether it hears
		}
		if n.Payload != "a" {
			t.Errorf("a notification of %q", n.Payload)
		}
		break
	}
	var rows int
	if err := srv.DB().QueryRow("SELECT count(*) FROM " + table).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	// Once in a session, however often it reads by the clock.
	listening(t, srv, s)
	for range 3 {
		srv.Exec("NOTIFY " + table) // all is read
		h.Until("the record, once more", func(store.Entry) bool { return true })
	}
	pids := make(map[uint32]bool)
	for _, w := range candidate.warmings() {
		if pids[w.pid] {
			t.Errorf("process %d was warmed twice", w.pid)
		}
		pids[w.pid] = true
	}
}
