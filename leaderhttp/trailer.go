package leaderhttp

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
)

// trail has out, a copy of the request, state the trailers that its caller sets
// while the body is read. They stay its own until then: a transport may read
// them while the next attempt is under way.
func (a *attempt) trail(out *http.Request) {
	of := func(body io.ReadCloser) io.ReadCloser {
		b := &trailed{ReadCloser: body, from: a.r.Trailer, to: out.Trailer, reading: make(chan struct{}, 1), closed: make(chan struct{})}
		a.reading.Go(b.over)
		return b
	}
	out.Body = of(out.Body)
	if again := out.GetBody; again != nil { // for a transport that repeats by itself
		out.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return of(body), nil
		}
	}
}

// settle waits until no body of an earlier attempt is read, since all of them
// set the trailers of one request.
func (a *attempt) settle() error {
	if a.sent == nil || a.r.Trailer == nil {
		return nil
	}
	over := make(chan struct{})
	go func() { a.reading.Wait(); close(over) }()
	select {
	case <-over:
		return nil
	case <-a.r.Context().Done():
		return context.Cause(a.r.Context())
	}
}

// A trailed body takes over the trailers when it ends.
type trailed struct {
	io.ReadCloser

	from, to http.Header
	reading  chan struct{} // holds one while it is read
	closed   chan struct{}
	once     sync.Once
}

func (b *trailed) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	select {
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	default:
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		maps.Copy(b.to, b.from)
	}
	return n, err
}

func (b *trailed) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// over waits until the body is closed, and no read is under way.
func (b *trailed) over() {
	<-b.closed
	b.reading <- struct{}{}
	<-b.reading // one that comes later reads nothing
}
