package k8sstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/seed-ff2cb582/leader/store"
)

// Get implements [store.Store] by a GET without a resourceVersion, which etcd
// answers by a quorum: what it shows is not older than the call.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	if !store.ValidKey(key) {
		return store.Entry{}, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	if err := s.open(); err != nil {
		return store.Entry{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	l, err := s.get(ctx, key)
	if err != nil {
		return store.Entry{}, s.readError(ctx, fmt.Sprintf("key %q", key), err)
	}
	return entryOf(key, l), nil
}

func entryOf(key string, l *lease) store.Entry {
	if l == nil {
		return store.Entry{Key: key}
	}
	return l.entry()
}

// get reads a Lease, which is nil if there is none, and returns the client's
// own errors.
func (s *Store) get(ctx context.Context, key string) (*lease, error) {
	sent := new(coordinationv1.Lease)
	err := s.request(http.MethodGet).Name(s.names.lease(key)).Do(quiet(ctx)).Into(sent)
	if absent(err) {
		s.known.forget(key)
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	return s.known.see(key, sent, false)
}

// A source reads for the watches.
type source struct{ s *Store }

// few is how many Leases are read one by one, for which one needs no right to
// others.
const few = 16

// Read implements [feed.Source].
func (src source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	s := src.s
	if err := s.open(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		err := s.client.Get().MaxRetries(0).Throttle(nil).AbsPath("/apis/coordination.k8s.io/v1").Do(quiet(ctx)).Error()
		// That the user may not ask is an answer, too.
		if err != nil && (class(err) == nil || apierrors.IsUnauthorized(err)) {
			return nil, s.readError(ctx, "the API coordination.k8s.io/v1", err)
		}
		return nil, nil
	}
	if len(keys) > few {
		entries, err := src.among(ctx, keys)
		if !errors.Is(err, store.ErrPermanent) {
			return entries, err
		}
	}
	return src.each(ctx, keys)
}

// each reads the keys one by one, some at a time.
func (src source) each(ctx context.Context, keys []string) ([]store.Entry, error) {
	entries, failures := make([]store.Entry, len(keys)), make([]error, len(keys))
	var all sync.WaitGroup
	turns := make(chan struct{}, few)
	for i, key := range keys {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			entries[i], failures[i] = src.s.Get(ctx, key)
		})
	}
	all.Wait()
	var read []store.Entry
	for i, e := range entries {
		if failures[i] == nil {
			read = append(read, e)
		}
	}
	return read, errors.Join(failures...)
}

// among finds the keys in the list of all.
func (src source) among(ctx context.Context, keys []string) ([]store.Entry, error) {
	wanted := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		wanted[key] = struct{}{}
	}
	var found []store.Entry
	err := src.s.list(ctx, func(key string, sent *coordinationv1.Lease) error {
		if _, is := wanted[key]; !is {
			return nil
		}
		l, err := src.s.known.see(key, sent, false)
		if err == nil {
			found = append(found, l.entry())
		}
		return err
	})
	return found, err
}

// List implements [feed.Source].
func (src source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	if err := src.s.open(); err != nil {
		return nil, err
	}
	var found []store.Entry
	err := src.s.list(ctx, func(key string, sent *coordinationv1.Lease) error {
		if !store.MatchPattern(pattern, key) {
			return nil
		}
		l, err := src.s.known.see(key, sent, false)
		if err == nil {
			found = append(found, l.entry())
		}
		return err
	})
	return found, err
}

// page is how many Leases are listed in one answer.
const page = 500

// list calls take for each Lease that is a register. All pages are of one
// revision of etcd.
func (s *Store) list(ctx context.Context, take func(key string, sent *coordinationv1.Lease) error) error {
	next := ""
	for {
		request := s.request(http.MethodGet).Param("limit", strconv.Itoa(page))
		if next != "" {
			request = request.Param("continue", next)
		}
		var leases coordinationv1.LeaseList
		if err := request.Do(quiet(ctx)).Into(&leases); err != nil {
			return s.readError(ctx, fmt.Sprintf("the Leases of namespace %q", s.opts.Namespace), err)
		}
		for i := range leases.Items {
			sent := &leases.Items[i]
			if key, ok := s.names.key(sent.Name, sent.Annotations[keyAnnotation]); ok {
				if err := take(key, sent); err != nil {
					return err
				}
			}
		}
		if next = leases.Continue; next == "" {
			return nil
		}
	}
}
