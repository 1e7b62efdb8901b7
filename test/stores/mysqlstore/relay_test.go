package mysqlstore_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

// A relay passes what the server sends, and after so many more answers breaks
// the connection. An answer here is short, and comes in one piece.
type relay struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	left  int // answers; negative: no end
}

func newRelay(tb testing.TB, target string) *relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{listener: l, left: -1}
	r.wg.Go(func() {
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
			r.mu.Lock()
			r.conns = append(r.conns, client, server)
			r.mu.Unlock()
			r.wg.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			r.wg.Go(func() { r.answers(client, server); _ = client.Close() })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) breakAfter(answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = answers
}

func (r *relay) answers(client io.Writer, server io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		end := r.left == 0
		if r.left > 0 {
			r.left--
		}
		r.mu.Unlock()
		if end {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A creation costs two answers, of which the first says that it was applied.
func TestACreationWhoseRevisionIsLostIsUnknown(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	sound := made(t, url(srv), table)
	r := newRelay(t, srv.Addr())
	s := open(t, srv.URL("lab", r.listener.Addr().String()), table)
	get(t, s, "a") // by a connection that is there
	r.breakAfter(1)
	_, err := s.CompareAndSwap(within(t), store.Write{Key: "a", Value: []byte("v")})
	outcome(t, err, store.Unknown, "revision is not known")
	if e := get(t, sound, "a"); string(e.Value) != "v" {
		t.Errorf("the register stands at %+v", e)
	}
}
