package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Driver opens quorum://?m=a=nats://HOST/BUCKET&m=b=…&m=c=…: each parameter m
// is the name of a member and its URL, which one of the drivers opens. An & in
// a member's URL is written %26, and a % there %25.
//
// It opens the store when more than half of the members could be opened, and a
// second later if the others do not answer. It goes on to try these. A member's
// URL that is invalid, or that is refused permanently until then, is an error.
func Driver(members ...store.Driver) store.Driver {
	return base.Driver("quorum://?m=NAME=URL&m=NAME=URL&m=NAME=URL", func(ctx context.Context, u *url.URL) (*opened, error) {
		parts, err := partsOf(u)
		if err != nil {
			return nil, base.InvalidURL(err)
		}
		return openParts(ctx, parts, members)
	}, "quorum")
}

// An opened is a Store whose members belong to it.
type opened struct {
	*Store
	parts []*part
}

// Close ends the Store and closes the members.
func (o *opened) Close() error {
	faults := []error{o.Store.Close()}
	for _, p := range o.parts {
		faults = append(faults, p.close())
	}
	return errors.Join(faults...)
}

// partsOf reads the members in a URL.
func partsOf(u *url.URL) ([]*part, error) {
	if u.Host != "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("between quorum:// and the ? must be nothing, since the members have their own hosts")
	}
	var parts []*part
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		key, value, _ := strings.Cut(pair, "=")
		// A + stays a + here, which may be part of a member's URL.
		value, err := url.PathUnescape(value)
		name, rawURL, ok := strings.Cut(value, "=")
		switch {
		case pair == "":
			continue
		case key != "m":
			return nil, fmt.Errorf("the parameter %q is unknown; known is m: an & in a member's URL is written %%26", key)
		case err != nil || !ok || name == "" || !strings.Contains(rawURL, "://"):
			return nil, fmt.Errorf("member %d: must be m=NAME=URL", len(parts)+1)
		}
		parts = append(parts, newPart(name, rawURL))
	}
	return parts, nil
}

// grace is how long an opener waits for the last members when a majority is
// open.
const grace = time.Second

func openParts(ctx context.Context, parts []*part, drivers []store.Driver) (*opened, error) {
	var members []Member
	for _, p := range parts {
		p.drivers = drivers
		members = append(members, Member{Name: p.name, Store: p})
	}
	s, err := New(members, Options{})
	if err != nil {
		return nil, err
	}
	o := &opened{s, parts}
	answers := make(chan error, len(parts))
	for _, p := range parts {
		p.begin(ctx, answers)
	}
	var failures []error
	var late <-chan time.Time
	for open := 0; open+len(failures) < len(parts); {
		select {
		case err := <-answers:
			if store.Classify(err) == store.Permanent {
				_ = o.Close()
				return nil, err
			}
			if err != nil {
				failures = append(failures, err)
				continue
			}
			open++
			if open == s.quorum() {
				late = time.After(grace)
			}
		case <-late:
			return o, nil
		}
	}
	if len(parts)-len(failures) < s.quorum() {
		_ = o.Close()
		return nil, fmt.Errorf("%w: fewer than %d of %d members can be opened: %w", store.ErrTransient, s.quorum(), len(parts), errors.Join(failures...))
	}
	return o, nil
}
