package proxy

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A waiting room is a server whose group nobody leads.
func newWaitingRoom(t *testing.T, opts Options) *server {
	t.Helper()
	p, err := newProxy("g", opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Proxy: p, route: newRoute(p)}
	s.route.lead(leader.LeaderInfo{Group: "g"})
	return s
}

func TestClientThatHasEndedItsRequestYieldsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWaitingRoom(t, Options{MaxConns: 2, Wait: time.Minute})
		admit := func() *duplex {
			far, near := newDuplex()
			s.admit(t.Context(), near)
			time.Sleep(2 * attention)
			return far
		}
		waits, ended := admit(), admit()
		if _, err := io.WriteString(ended, "request"); err != nil {
			t.Fatal(err)
		}
		_ = ended.CloseWrite()
		synctest.Wait()
		if n := s.open.Load(); n != 2 {
			t.Fatalf("%d slots are taken, want one for each of the two clients: the first may wait for its answer", n)
		}
		next := admit()
		if open(ended) || !open(waits) || !open(next) || s.Stats().Full != 1 {
			t.Errorf("open: the one that ended its request %v, the other one %v, the next one %v; %+v", open(ended), open(waits), open(next), s.Stats())
		}
		if last := admit(); open(last) || s.Stats().Full != 2 {
			t.Errorf("the last one is open: %v; %+v", open(last), s.Stats())
		}
		time.Sleep(time.Minute)
		s.conns.Wait()
	})
}

// Data that a client sends while it waits, and after that, arrives once and in
// order.
func TestBytesReadAheadReachTheLeaderFirst(t *testing.T) {
	for name, sizes := range map[string][3]int{ // sent before it is read, while it waits, and afterwards
		"little": {1, 1, 1}, "none before": {0, 0, 3}, "as much as is kept": {maxAhead - 1, 1, 5}, "more than is kept": {2 * maxAhead, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, toClient := newDuplex()
				server, toLeader := newDuplex()
				ahead := &readahead{conn: toClient, gone: func() { t.Error("it has not gone") }, ended: func() {}}
				parts := []string{strings.Repeat("a", sizes[0]), strings.Repeat("b", sizes[1]), strings.Repeat("c", sizes[2])}
				go func() { _, _ = io.WriteString(client, parts[0]+parts[1]) }()
				synctest.Wait()
				go ahead.run()
				synctest.Wait()
				ended := make(chan struct{})
				count := new(counters)
				go func() {
					defer close(ended)
					(&link{client: toClient, leader: toLeader, ahead: ahead}).carry(count)
				}()
				want := parts[0] + parts[1] + parts[2]
				first := make([]byte, sizes[0]+sizes[1])
				if _, err := io.ReadFull(server, first); err != nil { // before the client sends more
					t.Fatal(err)
				}
				go func() { _, _ = io.WriteString(client, parts[2]); _ = client.CloseWrite() }()
				rest, err := io.ReadAll(server)
				if got := string(first) + string(rest); err != nil || got != want || count.sent.Load() != uint64(len(want)) {
					t.Errorf("%d bytes arrive of %d, %v; %d are counted", len(got), len(want), err, count.sent.Load())
				}
				_ = server.CloseWrite()
				<-ended
			})
		})
	}
}
