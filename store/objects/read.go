package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// adoptions is how often the store tries to turn foreign content into a record
// while others write over it.
const adoptions = 8

// read returns a register's state, and the object that shows it.
func (r *registers) read(ctx context.Context, key string) (store.Entry, Object, error) {
	for range adoptions {
		object, err := r.bucket.Read(ctx, r.Name(key))
		if err != nil {
			return store.Entry{}, object, fmt.Errorf("key %q: %w", key, err)
		}
		e := store.Entry{Key: key}
		ok := true
		if object.Tag != "" {
			e.Revision, e.Tombstone, e.Value, ok = decode(object.Content)
		}
		if ok {
			r.learn(e, object.Tag, clock{object.Now, time.Now()})
			return e, object, nil
		}
		e, err = r.adopt(ctx, key, &object)
		if !errors.Is(err, store.ErrConflict) {
			return e, object, err
		}
	}
	return store.Entry{}, Object{}, fmt.Errorf("%w: key %q: others keep writing values that are not records", store.ErrTransient, key)
}

// adopt makes a record of foreign content, and keeps the content as its value.
func (r *registers) adopt(ctx context.Context, key string, object *Object) (store.Entry, error) {
	value := object.Content
	if len(value) > MaxValue {
		return store.Entry{}, fmt.Errorf("%w: key %q: the object has %d bytes, and is not a record", store.ErrPermanent, key, len(value))
	}
	e := store.Entry{Key: key, Revision: r.first(key, object.Now), Value: value}
	tag, err := r.bucket.Write(ctx, r.Name(key), encode(e.Revision, false, value), object.Tag)
	switch store.Classify(err) {
	case store.OK:
		object.Tag = tag
		r.learn(e, tag, clock{})
		return e, nil
	case store.Permanent: // the user may not write
		e.Revision = 1
		return e, nil
	case store.Conflict:
		return store.Entry{}, err
	default:
		return store.Entry{}, fmt.Errorf("%w: key %q: %v", store.ErrTransient, key, err) //nolint:errorlint // its class is a write's
	}
}

// source is what a Feed has of the registers.
type source struct{ *registers }

// atOnce bounds the requests of one look.
const atOnce = 16

// many is above how many keys one list is read in place of single objects. A
// list costs as much as a write, which is about as much as a dozen reads.
const many = 12

// Read implements [feed.Source].
func (s source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	switch {
	case len(keys) == 0:
		return nil, s.ping(ctx)
	case len(keys) <= many:
		return s.readAll(ctx, keys)
	}
	wanted := make(map[string]struct{}, len(keys))
	common := encodeName(keys[0])
	for _, key := range keys {
		wanted[key] = struct{}{}
		for name := encodeName(key); !strings.HasPrefix(name, common); {
			common = common[:len(common)-1]
		}
	}
	all, err := s.list(ctx, common, func(key string) bool { _, is := wanted[key]; return is })
	if errors.Is(err, store.ErrPermanent) { // the user may not see others' keys
		return s.readAll(ctx, keys)
	}
	return all, err
}

// readAll reads some keys. Beside an error it returns what could be read.
func (r *registers) readAll(ctx context.Context, keys []string) (all []store.Entry, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, key := range keys {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			e, failed := r.readSafely(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if failed != nil {
				err = failed
				return
			}
			all = append(all, e)
		})
	}
	wg.Wait()
	return all, err
}

// readSafely is read in a separate goroutine, which a panic of the client must
// not take down.
func (r *registers) readSafely(ctx context.Context, key string) (e store.Entry, err error) {
	shield.Call(func() { e, _, err = r.read(ctx, key) }, func(value any, stack []byte) {
		err = fmt.Errorf("%w: %s", store.ErrTransient, shield.Text("reading key "+key, value, stack))
	})
	return e, err
}

// List implements [feed.Source].
func (s source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	return s.list(ctx, listName(pattern), func(key string) bool { return store.MatchPattern(pattern, key) })
}

// list returns the states of the keys that are wanted, of those whose objects
// have names that begin as stated. Objects are read that are not as they were
// when last seen.
func (r *registers) list(ctx context.Context, begin string, wanted func(key string) bool) ([]store.Entry, error) {
	mark := r.begun()
	listed, err := r.bucket.List(ctx, r.prefix+begin)
	if err != nil {
		return nil, err
	}
	var all []store.Entry
	var changed []string
	for _, l := range listed {
		key, ok := decodeName(strings.TrimPrefix(l.Name, r.prefix))
		if !ok {
			continue
		}
		k := r.recall(key) // which has it remembered, wanted or not
		if !wanted(key) {
			continue
		}
		if l.Tag != "" && k.tag == l.Tag {
			all = append(all, k.entry)
			continue
		}
		changed = append(changed, key)
	}
	r.missing(begin, mark)
	read, err := r.readAll(ctx, changed)
	if err != nil {
		return nil, err
	}
	for _, e := range read {
		if e.Revision != 0 { // else it was deleted since
			all = append(all, e)
		}
	}
	return all, nil
}
