package consulstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
)

// consistent are the options of a read that its server answers once a majority
// has confirmed that it still leads. Consul's default mode may show an older
// state while the leader changes.
func consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// ask reads a register, or those that may match a pattern, and returns Consul's
// own errors, and its index for blocking queries.
func (c *client) ask(name string, q *api.QueryOptions) (entries []store.Entry, index uint64, err error) {
	if store.Wild(name) {
		return c.below(c.names.wide(name), q)
	}
	kv, meta, err := c.consul.KV().Get(c.names.of(name), q)
	if err != nil {
		return nil, 0, err
	}
	if kv == nil {
		return nil, meta.LastIndex, nil
	}
	return c.names.entries(api.KVPairs{kv}), meta.LastIndex, nil
}

// errFiltered: Consul leaves out of a list what the token may not read.
var errFiltered = errors.New("permission denied: the token may not read it")

// below reads all registers whose keys begin so.
func (c *client) below(prefix string, q *api.QueryOptions) (entries []store.Entry, index uint64, err error) {
	kvs, meta, err := c.consul.KV().List(prefix, q)
	if err != nil {
		return nil, 0, err
	}
	if len(kvs) == 0 && meta.ResultsFilteredByACLs {
		return nil, 0, errFiltered
	}
	return c.names.entries(kvs), meta.LastIndex, nil
}

// hasLeader asks whether the servers have a leader. It needs no right.
func (c *client) hasLeader(ctx context.Context) error {
	leader, err := c.consul.Status().LeaderWithQueryOptions((&api.QueryOptions{}).WithContext(ctx))
	if err == nil && leader == "" {
		err = errors.New("no cluster leader")
	}
	if err != nil {
		return c.readError(ctx, "the servers' leader", err)
	}
	return nil
}

// A source reads for the watches.
type source struct{ *client }

// many is how many registers are read in one transaction, of the 128
// operations that Consul takes, and of the 64 that it took before 1.13.
const many = 64

// Read implements [feed.Source].
func (s source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	switch len(keys) {
	case 0:
		return nil, s.hasLeader(ctx)
	case 1:
		return s.readOne(ctx, keys[0])
	}
	var all []store.Entry
	var failures []error
	for some := range slices.Chunk(keys, many) {
		entries, err := s.readSome(ctx, some)
		all, failures = append(all, entries...), append(failures, err)
	}
	return all, errors.Join(failures...)
}

// readOne reads a register by a consistent read: the result is not older than
// the call.
func (s source) readOne(ctx context.Context, key string) ([]store.Entry, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	defer leave()
	entries, _, err := s.ask(key, consistent(ctx))
	if err != nil {
		return nil, s.readError(ctx, fmt.Sprintf("key %q", key), err)
	}
	return entries, nil
}

// readSome reads registers in one transaction, at one instant.
func (s source) readSome(ctx context.Context, keys []string) ([]store.Entry, error) {
	operations := make(api.TxnOps, 0, len(keys))
	for _, key := range keys {
		operations = append(operations, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: s.names.of(key)}})
	}
	ok, answer, _, err := s.consul.Txn().Txn(operations, consistent(ctx))
	if err == nil && !ok {
		err = fmt.Errorf("the transaction was refused: %v", refusedBecause(answer))
	}
	if err != nil {
		return nil, s.readError(ctx, fmt.Sprintf("keys %q", keys), err)
	}
	unread := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		unread[key] = struct{}{}
	}
	all := make([]store.Entry, 0, len(keys))
	for _, r := range answer.Results {
		if r == nil || r.KV == nil {
			continue
		}
		if key, ok := s.names.register(r.KV.Key); ok {
			all = append(all, entry(key, r.KV))
			delete(unread, key)
		}
	}
	var failures []error
	for key := range unread { // left out for want of the right
		failures = append(failures, s.readError(ctx, fmt.Sprintf("key %q", key), fmt.Errorf("%w: %s", errFiltered, s.names.of(key))))
	}
	return all, errors.Join(failures...)
}

func refusedBecause(answer *api.TxnResponse) (all []string) {
	for _, e := range answer.Errors {
		if e != nil {
			all = append(all, e.What)
		}
	}
	return all
}

// List implements [feed.Source].
func (s source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	entries, _, err := s.ask(pattern, consistent(ctx))
	if err != nil {
		return nil, s.readError(ctx, fmt.Sprintf("pattern %q", pattern), err)
	}
	return entries, nil
}

// waiting are the options of a blocking query, which is answered when something
// has changed since the index, or after wait.
func waiting(ctx context.Context, index uint64, wait time.Duration) *api.QueryOptions {
	q := &api.QueryOptions{RequireConsistent: true, WaitIndex: index, WaitTime: wait}
	return q.WithContext(ctx)
}
