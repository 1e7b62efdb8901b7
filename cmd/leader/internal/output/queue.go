package output

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// Stamped writes the time before each line that is written to it. Each write has
// whole lines.
type Stamped struct{ W io.Writer }

// Write implements [io.Writer].
func (s Stamped) Write(b []byte) (int, error) {
	var text bytes.Buffer
	for line := range bytes.Lines(b) {
		text.WriteString(time.Now().Format("2006-01-02 15:04:05.000 "))
		text.Write(line)
	}
	if _, err := s.W.Write(text.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// maxQueued bounds what waits for a reader, in bytes. It is some thousand lines.
const maxQueued = 256 << 10

// A Queue passes lines on to a writer from a separate goroutine, so that no
// writer waits for the reader. A pipe that nobody reads takes 64 KiB, and then
// holds its writer for ever: a candidate would renew its lease and do nothing
// else. When more than 256 KiB wait, further writes are dropped. Their number
// is written in their place. Write may be called concurrently.
type Queue struct {
	out     io.Writer
	news    chan struct{} // has a token if the goroutine may have something to do
	drained chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	waiting [][]byte
	size    int   // of waiting
	dropped int   // since the last write that was taken
	err     error // of the last write to out
	closed  bool
}

// NewQueue returns a queue, which is to be closed.
func NewQueue(out io.Writer) *Queue {
	q := &Queue{out: out, news: make(chan struct{}, 1), drained: make(chan struct{})}
	go q.pass()
	return q
}

// Write takes b, or drops it, and returns the error of an earlier write.
func (q *Queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, io.ErrClosedPipe
	}
	if q.size+len(b) > maxQueued {
		q.dropped++
		return len(b), q.err
	}
	if note := q.note(); note != nil {
		q.add(note)
	}
	q.add(bytes.Clone(b))
	return len(b), q.err
}

// note returns the text that replaces the writes that were dropped. mu is held.
func (q *Queue) note() (line []byte) {
	if q.dropped > 0 {
		line = fmt.Appendf(nil, "leader: %d lines were dropped here, since nobody read the output\n", q.dropped)
		q.dropped = 0
	}
	return line
}

// add adds to what waits. mu is held.
func (q *Queue) add(b []byte) {
	q.waiting = append(q.waiting, b)
	q.size += len(b)
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// Close has the rest written, and returns when it is, or when patience is over,
// with the error of the last write. The goroutine of a writer that never returns
// is left behind.
func (q *Queue) Close(patience time.Duration) error {
	q.mu.Lock()
	q.closed = true
	close(q.news)
	q.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-q.drained:
	case <-late.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *Queue) pass() {
	defer close(q.drained)
	for range q.news {
		for b := q.take(); b != nil; b = q.take() {
			_, err := q.out.Write(b)
			q.mu.Lock()
			q.err = err
			q.mu.Unlock()
		}
	}
}

// take returns the next of what waits, or nil.
func (q *Queue) take() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return q.note()
	}
	b := q.waiting[0]
	q.waiting = q.waiting[1:]
	q.size -= len(b)
	return b
}
