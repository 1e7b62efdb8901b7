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

// get reads a Lease, which is nil if there is none. A GET without a
// resourceVersion is answered by a quorum of etcd, so the result is not older
// than the call. get returns the client's own errors.
func (c *client) get(ctx context.Context, key string) (*lease, error) {
	sent := new(coordinationv1.Lease)
	err := c.request(http.MethodGet).Name(c.names.lease(key)).Do(quiet(ctx)).Into(sent)
	if absent(err) {
		c.known.forget(key)
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	return c.known.see(key, sent, false)
}

// A source reads for the watches.
type source struct{ *client }

// few is how many Leases are read one by one, for which one needs no right to
// others.
const few = 16

// Read implements [feed.Source].
func (s source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	if len(keys) == 0 {
		err := s.api.Get().MaxRetries(0).Throttle(nil).AbsPath("/apis/coordination.k8s.io/v1").Do(quiet(ctx)).Error()
		// That the user may not ask is an answer, too.
		if err != nil && (class(err) == nil || apierrors.IsUnauthorized(err)) {
			return nil, s.readError(ctx, "the API coordination.k8s.io/v1", err)
		}
		return nil, nil
	}
	if len(keys) > few {
		entries, err := s.among(ctx, keys)
		if !errors.Is(err, store.ErrPermanent) {
			return entries, err
		}
	}
	return s.each(ctx, keys)
}

// each reads the keys one by one, some at a time.
func (s source) each(ctx context.Context, keys []string) ([]store.Entry, error) {
	entries, failures := make([]store.Entry, len(keys)), make([]error, len(keys))
	var all sync.WaitGroup
	turns := make(chan struct{}, few)
	for i, key := range keys {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			entries[i], failures[i] = s.readOne(ctx, key)
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

// readOne reads a register. One that does not exist has revision 0.
func (s source) readOne(ctx context.Context, key string) (store.Entry, error) {
	l, err := s.get(ctx, key)
	switch {
	case err != nil:
		return store.Entry{}, s.readError(ctx, fmt.Sprintf("key %q", key), err)
	case l == nil:
		return store.Entry{Key: key}, nil
	default:
		return l.entry(), nil
	}
}

// among finds the keys in the list of all.
func (s source) among(ctx context.Context, keys []string) ([]store.Entry, error) {
	wanted := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		wanted[key] = struct{}{}
	}
	var found []store.Entry
	err := s.list(ctx, func(key string, sent *coordinationv1.Lease) error {
		if _, is := wanted[key]; !is {
			return nil
		}
		l, err := s.known.see(key, sent, false)
		if err == nil {
			found = append(found, l.entry())
		}
		return err
	})
	return found, err
}

// List implements [feed.Source].
func (s source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	var found []store.Entry
	err := s.list(ctx, func(key string, sent *coordinationv1.Lease) error {
		if !store.MatchPattern(pattern, key) {
			return nil
		}
		l, err := s.known.see(key, sent, false)
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
func (c *client) list(ctx context.Context, take func(key string, sent *coordinationv1.Lease) error) error {
	next := ""
	for {
		request := c.request(http.MethodGet).Param("limit", strconv.Itoa(page))
		if next != "" {
			request = request.Param("continue", next)
		}
		var leases coordinationv1.LeaseList
		if err := request.Do(quiet(ctx)).Into(&leases); err != nil {
			return c.readError(ctx, fmt.Sprintf("the Leases of namespace %q", c.opts.Namespace), err)
		}
		for i := range leases.Items {
			sent := &leases.Items[i]
			if key, ok := c.names.key(sent.Name, sent.Annotations[keyAnnotation]); ok {
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
