// Package apptest gives tests of commands a store other than a NATS bucket.
package apptest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// Elsewhere returns a target on a store other than a NATS bucket. The store
// contains the records of st and does not report when it stored them.
func Elsewhere(st app.Registers, timeout time.Duration) app.Target {
	driver := store.Driver{Schemes: []string{"memory"}, Form: "memory://", Open: func(context.Context, *url.URL) (store.Opened, error) {
		return unclosed{st}, nil
	}}
	return app.Target{Store: "memory://", Timeout: timeout, Kit: app.Kit{Drivers: []store.Driver{driver}}}
}

// unclosed is a store that outlives the session that opens it.
type unclosed struct{ app.Registers }

// Close does nothing.
func (unclosed) Close() error { return nil }

// Lead writes the record of a leader with a TTL of 20 s, in term 1, which
// renewed it ago by its own clock.
func Lead(tb testing.TB, st *memstore.Store, group, id string, ago time.Duration) {
	tb.Helper()
	at := time.Now().Add(-ago).UnixMilli()
	st.Put(group, fmt.Appendf(nil, `{"id":%q,"token":"t","ttl":20000,"term":1,"acquired":%d,"renewed":%d}`, id, at, at))
}

// Stranger returns what a member of a quorum with other names holds of a key.
func Stranger(tb testing.TB, key string) store.Entry {
	tb.Helper()
	st := memstore.New()
	q, err := quorumstore.New([]quorumstore.Member{
		{Name: "x", Store: st}, {Name: "y", Store: memstore.New()}, {Name: "z", Store: memstore.New()},
	}, quorumstore.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	_, err = q.CompareAndSwap(tb.Context(), store.Write{Key: key, Value: []byte("x")})
	if err := errors.Join(err, q.Close()); err != nil {
		tb.Fatal(err)
	}
	e, err := st.Get(tb.Context(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}
