// Package storepool lends one NATS store to all who use the same bucket by the
// same connection, so that a thousand elections share its goroutine, its
// consumers and its subscriptions without knowing of each other.
package storepool

import (
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// A Pool is the stores that are lent. The zero value is an empty one. Its
// methods may be called concurrently.
type Pool struct {
	mu    sync.Mutex
	loans map[terms]*loan
}

// Common is the pool of this process: connections are known to all of it.
//
//nolint:gochecknoglobals // It holds a connection only while a store on it is lent.
var Common Pool

// Terms are what those who share a store have in common.
type terms struct {
	nc             *nats.Conn
	bucket, domain string
	create         bool
	settings       natsstore.BucketConfig // of the bucket, if it is made
}

// A loan is a store that is lent.
type loan struct {
	store    *natsstore.Store
	holders  int
	audience *audience
}

// Borrow returns the store of a bucket. Of the options it regards the domain,
// what the bucket is made like, and the logger, which hears of every panic in
// the store until release is called. The store is closed when the last holder
// has released it; release may be called more than once.
func (p *Pool) Borrow(nc *nats.Conn, bucket string, opts natsstore.Options) (s *natsstore.Store, release func(), err error) {
	t := terms{nc: nc, bucket: bucket, domain: opts.Domain}
	if opts.Create != nil {
		t.create, t.settings = true, *opts.Create
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.loans[t]
	if l == nil {
		l = &loan{audience: newAudience()}
		l.store, err = natsstore.New(nc, bucket, natsstore.Options{
			Domain: opts.Domain, Create: opts.Create, Logger: slog.New(l.audience.handler()),
		})
		if err != nil {
			return nil, nil, err
		}
		if p.loans == nil {
			p.loans = make(map[terms]*loan)
		}
		p.loans[t] = l
	}
	l.holders++
	leave := l.audience.join(opts.Logger)
	return l.store, sync.OnceFunc(func() {
		leave()
		p.release(t, l)
	}), nil
}

// release takes one holder off, and closes the store after the last. Close
// waits for functions that the store calls, which may borrow: it is not called
// with the mutex held.
func (p *Pool) release(t terms, l *loan) {
	if p.left(t, l) {
		l.store.Close()
	}
}

func (p *Pool) left(t terms, l *loan) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.holders--
	if l.holders > 0 {
		return false
	}
	delete(p.loans, t)
	return true
}
