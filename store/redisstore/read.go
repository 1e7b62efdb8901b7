package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// source is what the store's Feed reads and follows.
type source struct{ *client }

var _ feed.Follower = source{}

// flight is how many keys are read in one flight.
const flight = 256

// Read implements [feed.Source].
func (s source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	entries, failures, err := s.readAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	return entries, errors.Join(failures...)
}

// readAll reads some keys, and returns for which of them that failed, and why,
// unless nothing was read at all.
func (s source) readAll(ctx context.Context, keys []string) ([]store.Entry, []error, error) {
	// The results have no names: a call that goes on would fill them.
	var entries []store.Entry
	var failures []error
	err := s.await(ctx, func(ctx context.Context) error {
		if len(keys) == 0 {
			return s.rdb.Ping(ctx).Err()
		}
		for part := range slices.Chunk(keys, flight) {
			read, failed := s.read(ctx, part)
			entries = append(entries, read...)
			failures = append(failures, failed...)
		}
		return nil
	})
	if err != nil { // the call may go on, and what it fills is its own
		return nil, nil, readError("nothing was read", err)
	}
	return entries, failures, nil
}

// read reads some keys, whose errors are classified.
func (s source) read(ctx context.Context, keys []string) (entries []store.Entry, failures []error) {
	asked := make([]*redis.StringCmd, len(keys))
	flights := make(map[node][]redis.Cmder)
	for i, key := range keys {
		n, err := s.node(ctx, key)
		if err != nil {
			return nil, []error{readError("key "+key, err)}
		}
		asked[i] = redis.NewStringCmd(ctx, "get", s.name(key))
		flights[n] = append(flights[n], asked[i])
	}
	for n, cmds := range flights {
		if err := s.send(ctx, n, cmds...); err != nil {
			return nil, []error{fmt.Errorf("%w: nothing is believed: %w", store.ErrTransient, err)}
		}
	}
	entries = make([]store.Entry, 0, len(keys))
	for i, key := range keys {
		e, err := s.entry(ctx, key, asked[i])
		if err != nil {
			failures = append(failures, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, failures
}

// entry reads the answer for a key.
func (s source) entry(ctx context.Context, key string, asked *redis.StringCmd) (store.Entry, error) {
	content, err := asked.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return store.Entry{Key: key}, nil
	case err != nil:
		return store.Entry{}, readError(fmt.Sprintf("key %q", key), err)
	}
	if e, ok := parse(key, content); ok {
		return e, nil
	}
	return s.foreign(ctx, key, content)
}

// unranked is the revision of foreign content to those who may not give it one.
const unranked = 1

// foreign gives a revision to content that is not a record, if the user may.
func (s source) foreign(ctx context.Context, key, content string) (store.Entry, error) {
	n, err := s.node(ctx, key)
	if err != nil {
		return store.Entry{}, readError(fmt.Sprintf("key %q", key), err)
	}
	args := []any{s.channel(key)}
	got, err := s.run(ctx, n, "evalsha", s.adopt.name, key, args)
	if code(err) == "NOSCRIPT" {
		got, err = s.run(ctx, n, "eval", s.adopt.text, key, args)
	}
	denied := code(err) == "NOPERM" || err == nil && got.word == refused && errors.Is(classifyScript(got.detail), store.ErrPermanent)
	switch {
	case denied:
		return store.Entry{Key: key, Revision: unranked, Value: []byte(content)}, nil
	case err != nil:
		return store.Entry{}, readError(fmt.Sprintf("key %q", key), err)
	case got.short != nil:
		return store.Entry{}, fmt.Errorf("%w: key %q: %w", store.ErrTransient, key, got.short)
	case got.word == absent:
		return store.Entry{Key: key}, nil
	}
	if e, ok := parse(key, got.detail); ok {
		return e, nil
	}
	return store.Entry{}, fmt.Errorf("%w: key %q: %s", store.ErrTransient, key, got.detail)
}

// List implements [feed.Source]. It goes through all keys of the server, since
// Redis has no order of them.
func (s source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	if !store.Wild(pattern) {
		return s.records(ctx, []string{pattern})
	}
	var keys []string
	err := s.await(ctx, func(ctx context.Context) (err error) {
		keys, err = s.scan(ctx, pattern)
		return err
	})
	if err != nil {
		return nil, readError("the keys of "+pattern, err)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return s.records(ctx, keys)
}

// records reads the keys that hold a string. A list, hash, set or stream is not
// a record, and hides none: no pattern asks for it.
func (s source) records(ctx context.Context, keys []string) ([]store.Entry, error) {
	entries, failures, err := s.readAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	failures = slices.DeleteFunc(failures, func(err error) bool { return code(err) == "WRONGTYPE" })
	return entries, errors.Join(failures...)
}

// scan returns the keys that match the pattern.
func (s source) scan(ctx context.Context, pattern string) ([]string, error) {
	var mu sync.Mutex
	found := make(map[string]struct{}) // SCAN may show a key twice
	one := func(ctx context.Context, n *redis.Client) error {
		// On one connection, which ends with the server: to one that was
		// restarted, or took the place of the other, a cursor means nothing,
		// and what is not shown would count as vanished.
		conn := n.Conn()
		defer conn.Close() //nolint:errcheck // it goes back to the pool
		all := conn.Scan(ctx, 0, s.opts.Prefix+"*", 512).Iterator()
		for all.Next(ctx) {
			key := strings.TrimPrefix(all.Val(), s.opts.Prefix)
			if store.ValidKey(key) && store.MatchPattern(pattern, key) {
				mu.Lock()
				found[key] = struct{}{}
				mu.Unlock()
			}
		}
		return all.Err()
	}
	if err := s.masters(ctx, one); err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys, nil
}

// masters calls f for each server that takes writes, at the same time.
func (c *client) masters(ctx context.Context, f func(ctx context.Context, n *redis.Client) error) error {
	switch rdb := c.rdb.(type) {
	case *redis.Client:
		return f(ctx, rdb)
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, f)
	default:
		return fmt.Errorf("a %T has no masters", rdb) // New takes no others
	}
}
