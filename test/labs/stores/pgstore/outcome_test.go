package pgstore_test

import (
	"encoding/binary"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// The server sends the row, which holds the revision, before it commits. Only
// the message that it is ready again comes after the commit.
func TestRowInTheAnswerIsNotAnAcknowledgement(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	p := &severing{}
	s := open(t, srv.URL("lab", relay.NewOf(t, srv.Addr(), p.messages).Addr()), table)
	trial.Get(t, s, "a")
	p.sever()
	rev, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Value: []byte("v")})
	if err == nil {
		t.Fatalf("acknowledged at revision %d by a row", rev)
	}
	trial.Outcome(t, err, store.Unknown)
	if !p.passed() {
		t.Error("the row did not reach the client")
	}
}

// A pooler that loses the server may end the statement alone, with its own
// error, and the server may have committed before. Here it has.
func TestAnErrorThatNoServerGivesALostWriteIsUnknown(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	sound := made(t, srv.DSN("lab"), table)
	p := &replacing{}
	s := open(t, srv.URL("lab", relay.NewOf(t, srv.Addr(), p.messages).Addr()), table)
	for _, code := range []string{"08000", "08006", "08P01", "40003", "57P01", "58000", "XX000"} {
		t.Run(code, func(t *testing.T) {
			trial.Get(t, s, "a") // by a connection that is there
			p.replace(code)
			_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: code, Value: []byte("v")})
			trial.Outcome(t, err, store.Unknown, code)
			if e := trial.Get(t, sound, code); string(e.Value) != "v" {
				t.Errorf("the write was not committed, so that this shows nothing: %+v", e)
			}
		})
	}
}

// replacing passes the server's messages on, but for the next answer after
// replace: that becomes an error of one statement when the server is ready
// again, and so has committed.
type replacing struct {
	mu   sync.Mutex
	code string
}

func (p *replacing) replace(code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = code
}

func (p *replacing) messages(client io.Writer, server io.Reader) {
	for {
		kind, message, err := next(server)
		if err != nil {
			return
		}
		p.mu.Lock()
		code := p.code
		if kind == 'Z' {
			p.code = ""
		}
		p.mu.Unlock()
		switch {
		case code != "" && kind != 'Z':
			continue
		case code != "":
			body := "SERROR\x00C" + code + "\x00Mthe server's connection was lost\x00\x00"
			message = slices.Concat(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(body))), []byte(body), message)
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

// next reads one of the server's messages: a type, a length and so many bytes.
func next(server io.Reader) (kind byte, message []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err = io.ReadFull(server, body)
	return head[0], slices.Concat(head, body), err
}

// severing passes the server's messages on, and breaks the connection before
// the first ReadyForQuery after sever.
type severing struct {
	mu      sync.Mutex
	severed bool
	row     bool // a DataRow has passed since
}

func (p *severing) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.severed = true
}

func (p *severing) passed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.row
}

func (p *severing) messages(client io.Writer, server io.Reader) {
	for {
		kind, message, err := next(server)
		if err != nil {
			return
		}
		p.mu.Lock()
		end := p.severed && kind == 'Z'
		p.row = p.row || p.severed && kind == 'D'
		p.mu.Unlock()
		if end {
			return
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

func TestAWriteForWhichNoConnectionIsFreeIsTransient(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	pool := poolOf(t, srv.DSN("lab"), func(c *pgxpool.Config) { c.MaxConns = 1 })
	busy := over(t, pool, pgstore.Options{Table: table})
	conn, err := pool.Acquire(trial.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = busy.CompareAndSwap(trial.Brief(t), store.Write{Key: "a", Value: []byte("v")})
	conn.Release()
	trial.Outcome(t, err, store.Transient)
	if e := trial.Get(t, busy, "a"); e.Revision != 0 {
		t.Errorf("a write that never left is there: %+v", e)
	}
}

func TestErrorsThatAPersonMustFixArePermanent(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	_, err := pgstore.Open(trial.Within(t), srv.DSN("nobody-of-that-name"))
	trial.Outcome(t, err, store.Permanent)
	s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: "absent"})
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "a"})
	trial.Outcome(t, err, store.Permanent, "pgstore.Schema", "Options.Create")
	_, err = s.Get(trial.Within(t), "a")
	trial.Outcome(t, err, store.Permanent, "pgstore.Schema", "Options.Create")
}
