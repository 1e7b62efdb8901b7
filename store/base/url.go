package base

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// Driver returns a driver of stores with one open function. The URL that this
// gets is as [store.Driver] states.
func Driver[S store.Opened](form string, open func(context.Context, *url.URL) (S, error), schemes ...string) store.Driver {
	return store.Driver{Schemes: schemes, Form: form, Open: func(ctx context.Context, u *url.URL) (store.Opened, error) {
		s, err := open(ctx, u)
		if err != nil {
			return nil, err // and no nil S, which would not be nil as an interface
		}
		return s, nil
	}}
}

// Open opens the store that the URL names with the driver, which must open
// stores of type S.
func Open[S store.Opened](ctx context.Context, rawURL string, d store.Driver) (S, error) {
	opened, err := store.Open(ctx, rawURL, d)
	s, ok := opened.(S)
	if err == nil && !ok {
		err = fmt.Errorf("%w: opened a %T", store.ErrPermanent, opened)
	}
	return s, err
}

// Reached returns an opened store if try, with the context of one call, returns
// nil. Otherwise it closes the store, of which part is the [Store].
func Reached[S store.Opened](ctx context.Context, s S, part *Store, try func(context.Context) error) (S, error) {
	ctx, cancel, err := Begin(ctx, part)
	if err == nil {
		defer cancel()
		err = try(ctx)
	}
	if err != nil {
		var none S
		return none, errors.Join(err, s.Close())
	}
	return s, nil
}

// InvalidURL is the error of a URL that has a fault.
func InvalidURL(fault error) error {
	return fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, fault)
}

// A Query reads the parameters of a URL. An empty parameter counts as absent.
// Make one with [Parameters].
type Query struct {
	rest   url.Values
	known  []string
	faults []error
}

// Parameters returns the query of the URL.
func Parameters(u *url.URL) *Query { return &Query{rest: u.Query()} }

// Has reports whether the query has a parameter, even an empty one, that was
// not taken yet.
func (q *Query) Has(name string) bool { return q.rest.Has(name) }

// Text takes a parameter out of the query.
func (q *Query) Text(name string) string {
	text := q.rest.Get(name)
	if len(q.rest[name]) > 1 {
		q.faults = append(q.faults, fmt.Errorf("%s: must be set once", name))
	}
	q.rest.Del(name)
	q.known = append(q.known, name)
	return text
}

// Bool takes a parameter out of the query that is true or false.
func (q *Query) Bool(name string) bool {
	return take(q, name, strconv.ParseBool, "must be true or false")
}

// Int takes a parameter out of the query that is a whole number.
func (q *Query) Int(name string) int { return take(q, name, strconv.Atoi, "must be a whole number") }

// Duration takes a parameter out of the query that is a duration.
func (q *Query) Duration(name string) time.Duration {
	return take(q, name, time.ParseDuration, "must be a duration such as 5s")
}

// Endpoint takes a parameter out of the query that is an address of HTTP. The
// error does not contain it, since it may hold a password.
func (q *Query) Endpoint(name string) string {
	text := q.Text(name)
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		q.faults = append(q.faults, fmt.Errorf("%s: must be a URL with http or https", name))
	}
	return text
}

func take[T any](q *Query, name string, parse func(string) (T, error), rule string) (value T) {
	text := q.Text(name)
	if text == "" {
		return value
	}
	value, err := parse(text)
	if err != nil {
		q.faults = append(q.faults, fmt.Errorf("%s=%q: %s", name, text, rule))
	}
	return value
}

// Rest returns the parameters that were not taken, for the system's own client,
// and the faults of the others as an error of class [store.ErrInvalid].
func (q *Query) Rest() (url.Values, error) {
	if len(q.faults) > 0 {
		return q.rest, InvalidURL(errors.Join(q.faults...))
	}
	return q.rest, nil
}

// Done returns the faults of the parameters as an error of class
// [store.ErrInvalid]. A parameter that was not taken is one.
func (q *Query) Done() error {
	if err := q.Fault(); err != nil {
		return InvalidURL(err)
	}
	return nil
}

// Fault is Done for a URL that may name another thing than a store: its error
// has no class.
func (q *Query) Fault() error {
	for name := range q.rest {
		q.faults = append(q.faults, fmt.Errorf("the parameter %q is unknown; known are %s", name, strings.Join(q.known, ", ")))
	}
	return errors.Join(q.faults...)
}
