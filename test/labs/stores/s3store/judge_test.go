package s3store_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
)

func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		srv, c := made(tb)
		return judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, srv, c) },
			Addrs:     []string{srv.Addr},
			Processes: []judge.Process{judge.ProcessOf("the server", srv)},
		}
	}, trial.Flags(judge.Options{Lease: time.Second, Caps: storetest.Caps{
		MaxValue:  s3store.MaxValue,
		NoVisible: "a tombstone is an object, as the record was: its first line shows which",
	}}))
}

// registers are the registers below a new prefix. The clients have the SDK's
// usual retries, which would report a conflict with the write of the first
// attempt.
func registers(tb testing.TB, srv *objectlab.Server, c *s3.Client) judge.Registers {
	tb.Helper()
	opts := s3store.Options{Prefix: unique("judged") + "/", Every: 20 * time.Millisecond}
	name := at(tb, srv.Addr, opts.Prefix).Name
	o := operator{tb, c}
	var writes atomic.Int64
	counted := func(o *s3.Options) { o.HTTPClient = counting{o.HTTPClient, &writes} }
	opened := &trial.Opened{}
	return judge.Registers{
		Harness: storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				return opened.Add(over(tb, client(tb, srv.Addr, root()), opts))
			},
			Delete: func(key string) error { return o.remove(name(key)) },
			Put:    func(key string, value []byte) error { return o.put(name(key), value) },
			Purge:  func(key string) error { return o.remove(name(key)) },
			Interrupt: func() error {
				srv.Kill()
				opened.Noticed()
				srv.Run()
				return nil
			},
		},
		At: func(tb testing.TB, addr string) store.Store {
			return over(tb, client(tb, addr, root(), counted), s3store.Options{Prefix: opts.Prefix})
		},
		Writes: writes.Load,
		Lend: func(tb testing.TB) judge.Loan {
			c := client(tb, srv.Addr, root())
			return judge.Loan{
				Store: over(tb, c, s3store.Options{Prefix: opts.Prefix}),
				Works: func() error { return operator{tb, c}.put("other", []byte("v")) },
			}
		},
	}
}

// counting is a client that counts the writes that it is given.
type counting struct {
	s3.HTTPClient
	writes *atomic.Int64
}

func (c counting) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		c.writes.Add(1)
	}
	return c.HTTPClient.Do(r)
}
