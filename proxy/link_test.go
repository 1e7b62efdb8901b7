package proxy

import (
	"net"
	"testing"
	"time"
)

// Many bytes at a time are fast, few are counted soon.
func TestChunksGrowWhileTheyAreCarriedBriskly(t *testing.T) {
	chunk := int64(minChunk)
	for range 10 {
		chunk = next(chunk, time.Millisecond)
	}
	if chunk != maxChunk {
		t.Errorf("%d bytes on a fast connection, want %d", chunk, maxChunk)
	}
	// At a steady rate two chunks are never further apart than a chunk that is
	// just not too slow, and twice that.
	for rate := 1e5; rate < 1e10; rate *= 1.7 {
		chunk := int64(minChunk)
		for range 100 {
			took := time.Duration(float64(chunk) / rate * 1e9)
			if chunk > minChunk && took > 2*brisk {
				t.Fatalf("at %.0f bytes a second %d are counted after %v", rate, chunk, took)
			}
			chunk = next(chunk, took)
		}
	}
	if chunk = next(maxChunk, time.Second); chunk != minChunk {
		t.Errorf("%d bytes on one that has become slow, want %d", chunk, minChunk)
	}
}

// An envelope is a connection around another that sends a goodbye where it is
// closed, and waits for that to be sent, as TLS connections do.
type envelope struct {
	net.Conn

	letter *duplex // the innermost
	closed bool
	early  bool
}

func (e *envelope) NetConn() net.Conn { return e.Conn }

func (e *envelope) Close() error {
	e.early = e.early || !e.letter.closed.Load()
	e.closed = true
	return e.Conn.Close()
}

func TestAConnectionWithinOthersIsResetBeforeTheySayGoodbye(t *testing.T) {
	letter, _ := newDuplex()
	inner := &envelope{Conn: letter, letter: letter}
	outer := &envelope{Conn: inner, letter: letter}
	reset(outer)
	if !letter.reset.Load() || outer.early || inner.early {
		t.Errorf("reset %v; a goodbye %v and %v", letter.reset.Load(), outer.early, inner.early)
	}
	if !outer.closed || !inner.closed { // a listener may count them
		t.Errorf("closed %v and %v", outer.closed, inner.closed)
	}
}
