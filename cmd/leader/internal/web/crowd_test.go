package web_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

// A house is a server in virtual time.
type house struct {
	t  *testing.T
	ln *pipe
}

// open serves with so many places until the test ends.
func open(t *testing.T, most int, full func(), h http.Handler) house {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ln := &pipe{make(chan net.Conn), make(chan struct{})}
	srv := web.On(ctx, ln, h)
	if most > 0 {
		srv.Limit(most, full)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return house{t, ln}
}

// A guest is a client's end of a connection.
type guest struct {
	net.Conn

	in *bufio.Reader
}

func (h house) connect() guest {
	ours, theirs := net.Pipe()
	h.ln.conns <- theirs
	h.t.Cleanup(func() { _ = ours.Close() })
	synctest.Wait()
	return guest{ours, bufio.NewReader(ours)}
}

// get reports whether a request is answered.
func (g guest) get() bool {
	_ = g.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(g, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(g.in, nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err == nil
}

// asks reports what get does, after which the connection waits.
func (g guest) asks() bool {
	defer synctest.Wait()
	return g.get()
}

// closed reports whether the server has closed the connection.
func (g guest) closed() bool {
	_ = g.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := g.in.ReadByte()
	return err == io.EOF
}

func TestANewConnectionTakesThePlaceOfTheOneThatHasWaitedLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, 3, func() { t.Error("one was refused") }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		mute, idle, busy := h.connect(), h.connect(), h.connect()
		if !idle.asks() || !busy.asks() || !idle.asks() {
			t.Fatal("not answered")
		}
		if next := h.connect(); !mute.closed() || !next.asks() {
			t.Error("one that asks nothing keeps its place")
		}
		if next := h.connect(); !busy.closed() || idle.closed() || !next.asks() || !idle.asks() {
			t.Error("another than the one that has waited longest lost its place")
		}
	})
}

func TestAConnectionIsRefusedWhileAllOthersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused, answer := 0, make(chan struct{})
		h := open(t, 2, func() { refused++ }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
		results := make(chan bool, 2)
		for range 2 {
			g := h.connect()
			go func() { results <- g.get() }()
		}
		synctest.Wait()
		if late := h.connect(); !late.closed() || refused != 1 {
			t.Errorf("%d refused", refused)
		}
		close(answer)
		if a, b := <-results, <-results; !a || !b {
			t.Error("not answered")
		}
		synctest.Wait()
		if !h.connect().get() {
			t.Error("there is a place, and it was refused")
		}
	})
}

func TestConnectionsThatEndLeaveTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, 2, func() { t.Error("one was refused") }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		stays := h.connect()
		for range 10 {
			g := h.connect()
			if !g.get() {
				t.Fatal("not answered")
			}
			_ = g.Close()
			synctest.Wait()
		}
		if stays.closed() || !stays.get() {
			t.Error("it lost its place to one that has gone")
		}
	})
}

// A client that asks and reads nothing must not hold a connection, which
// nobody else may then have.
func TestAnAnswerThatNobodyReadsHoldsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		h := open(t, 0, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(ended)
			_, _ = w.Write(make([]byte, 1<<20))
		}))
		g := h.connect()
		if _, err := io.WriteString(g, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(time.Hour):
			t.Error("it is held for an hour")
			_ = g.Close()
		}
	})
}

func TestALongAnswerToASlowReaderArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		h := open(t, 0, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }))
		g := h.connect()
		if _, err := io.WriteString(g, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(g.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it is only read
		n, buf := 0, make([]byte, 16<<10)
		for err == nil {
			var m int
			m, err = resp.Body.Read(buf)
			n += m
			time.Sleep(time.Second) // more than a minute for all
		}
		if n != size {
			t.Errorf("%d bytes of %d, %v", n, size, err)
		}
	})
}
