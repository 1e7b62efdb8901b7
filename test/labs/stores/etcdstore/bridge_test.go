package etcdstore_test

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// The following code is quoted in docs/guides/migrating/etcd.md, and
// TestTheBridgeMatchesThePage compares the two.

// A bridge acts while it holds two elections: that of etcd's concurrency
// package, by which the instances of before know who may act, and ours within.
type bridge struct {
	client *clientv3.Client
	key    string        // of the election of before
	ttl    time.Duration // of its sessions, whole seconds
	store  store.Store
	config leader.ElectionConfig
	// work does the work until ctx ends. Before each act that must not be done
	// twice it asks held, too.
	work func(ctx context.Context, term leader.Term, held func() bool) error
}

// Run takes part once, until ctx is done or the old election is lost. The
// caller calls it again.
func (b *bridge) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := concurrency.NewSession(b.client, concurrency.WithTTL(int(b.ttl/time.Second)))
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // where etcd cannot be reached its lease runs out
	if err := concurrency.NewElection(session, b.key).Campaign(ctx, b.config.InstanceID); err != nil {
		return err
	}
	held, until, err := b.hold(ctx, session.Lease())
	if err != nil {
		return err
	}
	// It returns when the work has stopped. Then, and not before, the session
	// is closed, and an instance of before may act.
	return leader.RunWithStore(held, b.store, b.config, func(ctx context.Context, term leader.Term) error {
		return b.work(ctx, term, func() bool { return time.Now().Before(*until.Load()) })
	})
}

// hold returns a context that ends before etcd gives the session's lease to
// another: nine tenths of its TTL after the last keepalive left that etcd has
// answered. Session.Done does not serve, since it counts from the answer.
func (b *bridge) hold(ctx context.Context, lease clientv3.LeaseID) (context.Context, *atomic.Pointer[time.Time], error) {
	until := &atomic.Pointer[time.Time]{}
	renew := func(ctx context.Context) error {
		end := time.Now().Add(b.ttl * 9 / 10)
		_, err := b.client.KeepAliveOnce(ctx, lease)
		if err == nil {
			until.Store(&end)
		}
		return err
	}
	if err := renew(ctx); err != nil {
		return nil, nil, err
	}
	held, end := context.WithCancel(ctx)
	window := time.AfterFunc(time.Until(*until.Load()), end)
	go func() {
		defer window.Stop()
		beat := time.NewTicker(b.ttl / 5)
		defer beat.Stop()
		for held.Err() == nil {
			select {
			case <-held.Done():
			case <-beat.C:
				if renew(held) == nil && held.Err() == nil {
					window.Reset(time.Until(*until.Load()))
				}
			}
		}
	}()
	return held, until, nil
}
