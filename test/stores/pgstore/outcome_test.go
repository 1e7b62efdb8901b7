package pgstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// brief is a context for a call that does not end by itself.
func brief(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), 300*time.Millisecond)
	tb.Cleanup(cancel)
	return ctx
}

// drawn is how many revisions the table's sequence has given.
func drawn(tb testing.TB, srv *databases.Server, table string) (n int64) {
	tb.Helper()
	if err := srv.DB().QueryRow("SELECT last_value FROM " + table + "_revision").Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestAWriteWhoseAnswerIsLostIsUnknownAndSentOnce(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	sound := made(t, srv.DSN("lab"), table)
	for name, lose := range map[string]func(*natslab.Proxy){
		"the answer does not come": func(*natslab.Proxy) {},
		"the connection is cut":    func(p *natslab.Proxy) { p.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			p := natslab.NewProxy(t, srv.Addr())
			s := open(t, srv.URL("lab", p.Addr()), table)
			key := "k" + newTable()
			first := must(t, s, store.Write{Key: key, Value: []byte("first")})
			before := drawn(t, srv, table)
			p.Hold(natslab.ToClient)
			result := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err := s.CompareAndSwap(ctx, store.Write{Key: key, Expected: first, Value: []byte("second")})
				result <- err
			}()
			natslab.Eventually(t, "the write is applied", func(context.Context) error {
				if e := get(t, sound, key); string(e.Value) != "second" {
					return errors.New(string(e.Value))
				}
				return nil
			})
			lose(p)
			outcome(t, <-result, store.Unknown)
			p.Resume()
			natslab.Eventually(t, "the store serves again", func(ctx context.Context) error {
				_, err := s.Get(ctx, key)
				return err
			})
			if n := drawn(t, srv, table); n != before+1 {
				t.Errorf("one call drew %d revisions", n-before)
			}
		})
	}
}

func TestAWriteToAFrozenServerIsUnknownAndMayLandLater(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	s := made(t, srv.DSN("lab"), newTable())
	first := must(t, s, store.Write{Key: "a", Value: []byte("first")})
	srv.Freeze()
	_, err := s.CompareAndSwap(brief(t), store.Write{Key: "a", Expected: first, Value: []byte("second")})
	srv.Thaw()
	outcome(t, err, store.Unknown)
	// It was applied or was not, and the next write finds out which.
	natslab.Eventually(t, "the next write", func(ctx context.Context) error {
		e, err := s.Get(ctx, "a")
		if err == nil {
			_, err = s.CompareAndSwap(ctx, store.Write{Key: "a", Expected: e.Revision, Value: []byte("third")})
		}
		return err
	})
}

// The server sends the row, which holds the revision, before it commits. Only
// the message that it is ready again comes after the commit.
func TestARowIsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	p := newSevering(t, srv.Addr())
	s := open(t, srv.URL("lab", p.listener.Addr().String()), table)
	get(t, s, "a")
	p.sever()
	rev, err := s.CompareAndSwap(within(t), store.Write{Key: "a", Value: []byte("v")})
	if err == nil {
		t.Fatalf("acknowledged at revision %d by a row", rev)
	}
	outcome(t, err, store.Unknown)
	if !p.passed() {
		t.Error("the row did not reach the client")
	}
}

// severing passes the server's messages on, and breaks the connection before
// the first ReadyForQuery after sever.
type severing struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	severed bool
	row     bool // a DataRow has passed since
}

func newSevering(tb testing.TB, target string) *severing {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &severing{listener: l}
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			p.wg.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			p.wg.Go(func() { p.messages(client, server); _ = client.Close() })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
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

// messages passes the server's messages on, each of a type, a length and so
// many bytes.
func (p *severing) messages(client io.Writer, server io.Reader) {
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		p.mu.Lock()
		end := p.severed && head[0] == 'Z'
		p.row = p.row || p.severed && head[0] == 'D'
		p.mu.Unlock()
		if end {
			return
		}
		if _, err := client.Write(slices.Concat(head, body)); err != nil {
			return
		}
	}
}

func TestWhatNeverLeftIsTransient(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	s := made(t, srv.DSN("lab"), table)
	write := store.Write{Key: "a", Value: []byte("v")}

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.CompareAndSwap(done, write)
	outcome(t, err, store.Transient)

	// All connections of the pool are in use.
	pool := poolOf(t, srv.DSN("lab"), func(c *pgxpool.Config) { c.MaxConns = 1 })
	busy := over(t, pool, pgstore.Options{Table: table})
	conn, err := pool.Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = busy.CompareAndSwap(brief(t), write)
	conn.Release()
	outcome(t, err, store.Transient)

	// The server is gone, and refuses connections.
	idle := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table})
	srv.Kill()
	_, err = idle.CompareAndSwap(within(t), write)
	outcome(t, err, store.Transient)
	_, err = idle.Get(within(t), "a")
	outcome(t, err, store.Transient)
	srv.Run()
	if e := get(t, idle, "a"); e.Revision != 0 {
		t.Errorf("a write that never left is there: %+v", e)
	}
}

func TestAClosedStoreOrPoolIsClosedForGood(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	pool := poolOf(t, srv.DSN("lab"))
	s := over(t, pool, pgstore.Options{Table: table, Create: true})
	if _, err := s.Check(within(t), store.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := pool.Ping(within(t)); err != nil {
		t.Errorf("a store closed the pool that it was given: %v", err)
	}
	other := over(t, pool, pgstore.Options{Table: table})
	pool.Close()
	for _, s := range []*pgstore.Store{s, other} {
		_, err := s.CompareAndSwap(within(t), store.Write{Key: "a"})
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("a write: %v", err)
		}
		if _, err := s.Get(within(t), "a"); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a read: %v", err)
		}
	}
}

func TestWhatAPersonMustChangeIsPermanent(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	_, err := pgstore.Open(within(t), srv.DSN("nobody-of-that-name"))
	outcome(t, err, store.Permanent)
	s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: "absent"})
	_, err = s.CompareAndSwap(within(t), store.Write{Key: "a"})
	outcome(t, err, store.Permanent, "pgstore.Schema", "Options.Create")
	_, err = s.Get(within(t), "a")
	outcome(t, err, store.Permanent, "pgstore.Schema", "Options.Create")
}

func TestInvalidKeysAndValuesAreRefusedWithoutTheServer(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, "postgres://lab@127.0.0.1:1/none?sslmode=disable") // nobody listens there
	s := over(t, pool, pgstore.Options{})
	for _, w := range []store.Write{{Key: ""}, {Key: "a b"}, {Key: "a", Value: make([]byte, 1<<20+1)}} {
		if _, err := s.CompareAndSwap(within(t), w); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key %q with %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(within(t), "a..b"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a read: %v", err)
	}
	_, err := s.CompareAndSwap(within(t), store.Write{Key: "a", Expected: 1 << 63})
	outcome(t, err, store.Conflict)
}
