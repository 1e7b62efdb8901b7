package mysqlstore_test

import (
	"io"
	"sync"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// A severing passes what the server sends, and after so many more answers breaks
// the connection. An answer here is short, and comes in one piece.
type severing struct {
	mu   sync.Mutex
	left int // answers; negative: no end
}

func (r *severing) breakAfter(answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = answers
}

func (r *severing) answers(client io.Writer, server io.Reader) {
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

// A creation costs two answers, the first of which reports that it was applied.
func TestACreationWhoseRevisionIsLostIsUnknown(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	sound := made(t, url(srv), table)
	r := &severing{left: -1}
	s := open(t, srv.URL("lab", relay.NewOf(t, srv.Addr(), r.answers).Addr()), table)
	trial.Get(t, s, "a") // by a connection that is there
	r.breakAfter(1)
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Value: []byte("v")})
	trial.Outcome(t, err, store.Unknown, "revision is not known")
	if e := trial.Get(t, sound, "a"); string(e.Value) != "v" {
		t.Errorf("the register is at %+v", e)
	}
}
