package candidate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/httpfence"
	"github.com/seed-ff2cb582/leader/fence/natsfence"
)

const (
	postEvery = 5 * time.Millisecond
	putEvery  = 20 * time.Millisecond
	// staleFor is how long a writer goes on after the first refusal. Until then
	// it goes on whatever has become of its term.
	staleFor = 5 * time.Second
)

// A ledger writes to the guarded resources. It states its term, and does not
// look whether it still leads.
type ledger struct {
	spec   Spec
	client *http.Client
	nc     *nats.Conn
	js     jetstream.JetStream

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newLedger(spec Spec) (*ledger, error) {
	nc, err := nats.Connect(spec.Guarded, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	l := &ledger{spec: spec, client: &http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Second}, nc: nc, js: js}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// close ends all writers.
func (l *ledger) close() {
	l.cancel()
	l.wg.Wait()
	l.client.CloseIdleConnections()
	l.nc.Close()
}

// write writes for a term until staleFor has passed since the first refusal, or
// the writer is cancelled: long after the term, as a stale writer.
func (l *ledger) write(term leader.Term) (cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.wg.Go(func() { goOn(ctx, postEvery, func() bool { return l.post(ctx, term) }) })
	l.wg.Go(func() { l.putAll(ctx, term) })
	return cancel
}

// goOn calls write again and again until staleFor has passed since it was
// refused first.
func goOn(ctx context.Context, d time.Duration, write func() (refused bool)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	var end <-chan time.Time
	for {
		select {
		case <-tick.C:
			if write() && end == nil {
				end = time.After(staleFor)
			}
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// post writes by HTTP, and reports whether the write was refused as stale.
func (l *ledger) post(ctx context.Context, term leader.Term) (refused bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.spec.Ledger, strings.NewReader("x"))
	if err != nil {
		return false
	}
	httpfence.Stamp(req.Header, GuardedGroup, term)
	req.Header.Set(HeaderProcess, l.spec.Name)
	resp, err := l.client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusPreconditionFailed
}

// putAll writes to the guarded bucket. The guard is raised once, and a stale
// writer's writes go on under it.
func (l *ledger) putAll(ctx context.Context, term leader.Term) {
	kv, err := l.open(ctx, term)
	if err != nil {
		l.refused(err)
		return // superseded already, or over
	}
	key := fmt.Sprintf("w.%s.%d", l.spec.Name, term.Number)
	goOn(ctx, putEvery, func() bool {
		_, err := kv.Put(ctx, key, []byte("x"))
		return l.refused(err)
	})
}

// refused reports whether a write was refused as stale. It also reports the
// refusal to the lab, which otherwise sees only stored writes.
func (l *ledger) refused(err error) bool {
	if !errors.Is(err, fence.ErrStale) {
		return false
	}
	_ = l.nc.Publish(RefusedSubject, nil) // one that is lost is not counted
	return true
}

func (l *ledger) open(ctx context.Context, term leader.Term) (kv *natsfence.KV, err error) {
	for {
		kv, err = natsfence.OpenKV(ctx, l.js, GuardedBucket, GuardedGroup, term)
		if err == nil || errors.Is(err, fence.ErrStale) || ctx.Err() != nil {
			return kv, err
		}
	}
}
