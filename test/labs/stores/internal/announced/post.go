package announced

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// A Post keeps writes back, as a network may.
type Post struct {
	mu      sync.Mutex
	armed   bool
	release chan struct{}
	Kept    chan struct{} // closed when a write is kept back
	Landed  chan error    // how it ended
}

// NewPost returns one that keeps the next write back.
func NewPost() *Post {
	return &Post{armed: true, release: make(chan struct{}), Kept: make(chan struct{}), Landed: make(chan error, 1)}
}

// Release lets pass what was kept back.
func (p *Post) Release() { close(p.release) }

// Send makes a write by send. A held write is made when it is released, even if
// its caller has given up.
func (p *Post) Send(ctx context.Context, send func(context.Context) error) error {
	p.mu.Lock()
	armed := p.armed
	p.armed = false
	p.mu.Unlock()
	if !armed {
		return send(ctx)
	}
	close(p.Kept)
	go func() {
		<-p.release
		p.Landed <- send(context.WithoutCancel(ctx))
	}()
	<-ctx.Done()
	return ctx.Err()
}

// Through returns a way to a server by which the requests that are writes go
// through the post.
func (p *Post) Through(by http.RoundTripper, writes func(*http.Request) bool) http.RoundTripper {
	return posted{p, by, writes}
}

type posted struct {
	post   *Post
	by     http.RoundTripper
	writes func(*http.Request) bool
}

// RoundTrip implements http.RoundTripper.
func (p posted) RoundTrip(r *http.Request) (*http.Response, error) {
	if !p.writes(r) {
		return p.by.RoundTrip(r)
	}
	answered := make(chan *http.Response, 1)
	err := p.post.Send(r.Context(), func(ctx context.Context) error {
		answer, err := p.by.RoundTrip(r.Clone(ctx))
		switch {
		case err != nil:
			return err
		case ctx.Done() == nil: // it was kept back, and the caller is gone
			if err = answer.Body.Close(); answer.StatusCode >= http.StatusBadRequest {
				err = fmt.Errorf("%s", answer.Status)
			}
			return err
		}
		answered <- answer
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-answered, nil
}
