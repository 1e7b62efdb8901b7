package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A Driver opens stores of one kind by their URL. Each package that implements
// one exports its own; nothing registers itself by being imported.
type Driver struct {
	// Schemes are the URL schemes of this kind, in lower case.
	Schemes []string
	// Form shows what a URL looks like, for people: an example, with what may
	// be left out in brackets.
	Form string
	// Open connects. u has one of Schemes, two slashes behind it, parameters
	// that [url.ParseQuery] takes, and no fragment. ctx bounds the attempt to
	// connect and nothing beyond it. Errors are classified as a Store's, and
	// name the part of the URL that is wrong; they do not show its password.
	Open func(ctx context.Context, u *url.URL) (Opened, error)
}

// Opened is a Store with its own connection, which Close ends permanently:
// later calls fail with [ErrClosed]. Close may be called more than once.
type Opened interface {
	Store
	// Close ends the connection.
	Close() error
}

// Open opens the store that the URL names, with the first of the drivers that
// knows its scheme. An error that is [ErrInvalid] explains what is wrong with
// the URL; others are the driver's.
func Open(ctx context.Context, rawURL string, drivers ...Driver) (Opened, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's error repeats the URL, and the one in it the part that is
		// wrong, which is the password where that is not escaped.
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err
		}
		what, _, _ := strings.Cut(err.Error(), ` "`)
		if strings.Contains(rawURL, "@") {
			what += "; in a user's name or password : / ? # [ ] @ % are written as %3A %2F %3F %23 %5B %5D %40 %25"
		}
		return nil, fmt.Errorf("%w: the store's URL: %s", ErrInvalid, what)
	}
	if err := readable(u); err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", ErrInvalid, err)
	}
	scheme := strings.ToLower(u.Scheme)
	for _, d := range drivers {
		if !slices.Contains(d.Schemes, scheme) {
			continue
		}
		// Without the slashes what should be the host is none, and what
		// follows may hold a password.
		if !strings.HasPrefix(rawURL[len(scheme):], "://") {
			return nil, fmt.Errorf("%w: the store's URL: after the scheme %q come two slashes: %s", ErrInvalid, u.Scheme, d.Form)
		}
		return d.Open(ctx, u)
	}
	return nil, fmt.Errorf("%w: the store's URL has the scheme %q; known here are %s", ErrInvalid, u.Scheme, forms(drivers))
}

// readable refuses what would be silently ignored otherwise: a fragment, which
// no driver reads, and parameters that [url.URL.Query] drops, such as
// parameters that a semicolon separates. A store would be opened without its
// prefix, or without TLS. The parameters may be secret.
func readable(u *url.URL) error {
	if u.Fragment != "" {
		return errors.New("the fragment, which is what follows a #: must be empty, since nothing reads it: write %23 for a # in a name or a password")
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if _, err := url.ParseQuery(pair); err != nil {
			name, _, named := strings.Cut(pair, "=")
			if !named {
				name = "" // it may be the rest of a password
			}
			return fmt.Errorf("the query: the parameter %q holds a semicolon or a lone percent sign: write & between parameters, and %%3B and %%25 in them", name)
		}
	}
	return nil
}

// forms lists what the drivers' URLs look like.
func forms(drivers []Driver) string {
	if len(drivers) == 0 {
		return "none"
	}
	all := make([]string, len(drivers))
	for i, d := range drivers {
		all[i] = d.Form
	}
	return strings.Join(all, ", ")
}
