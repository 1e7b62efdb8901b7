package announce

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/discovery"
)

// A system is where leaders are announced.
type system struct {
	announcers []discovery.Announcer // one for each group
	close      func()
}

// An opener opens the system at a URL, for announcers of the groups. The
// context bounds the call.
type opener func(ctx context.Context, u *url.URL, groups []string) (system, error)

// parse returns what opens the system at a URL, for announcers of the groups.
// Errors do not repeat the URL, which may hold a password.
func parse(to string, groups []string) (open func(context.Context) (system, error), _ error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, errors.New("--to: is not a URL")
	}
	all := openers()
	opens := all[strings.ToLower(u.Scheme)]
	const known = "must begin with etcd://, etcds://, consul://, consuls:// or k8s://"
	switch {
	case to == "":
		return nil, errors.New("--to: is required, and " + known)
	case len(all) == 0:
		return nil, errors.New("--to: this program was built with the tag natsonly, and announces nowhere")
	case opens == nil && u.Scheme == "":
		return nil, errors.New("--to: " + known)
	case opens == nil:
		return nil, fmt.Errorf("--to %s://: %s", u.Scheme, known)
	case u.Fragment != "":
		return nil, fmt.Errorf("--to %s://: what follows a # would not be read: write %%23 for a # in a name or a password", u.Scheme)
	case !strings.HasPrefix(to[len(u.Scheme):], "://"):
		return nil, fmt.Errorf("--to %s: after the scheme come two slashes: %s://", u.Scheme, u.Scheme)
	}
	if !strings.HasPrefix(u.Scheme, "etcd") {
		if _, err := serviceOf(u, groups); err != nil {
			return nil, fmt.Errorf("--to %s://: %w", u.Scheme, err)
		}
	}
	return func(ctx context.Context) (system, error) {
		s, err := opens(ctx, u, groups)
		if err == nil {
			return s, nil
		}
		if s.close != nil {
			s.close()
		}
		if errors.Is(err, errNotLetIn) {
			return s, fmt.Errorf("--to %s://: %w", u.Scheme, err)
		}
		return s, fmt.Errorf("%w: --to %s://: %w", app.ErrUsage, u.Scheme, err)
	}, nil
}

// errNotLetIn does not mean that the command line is wrong: a system that asks
// for a password is contacted at the start.
var errNotLetIn = errors.New("no server has let us in")

// serviceOf returns the name of the service that a URL's path is, or none for
// the name of each group.
func serviceOf(u *url.URL, groups []string) (string, error) {
	service := strings.Trim(u.Path, "/")
	switch {
	case strings.Contains(service, "/"):
		return "", errors.New("the path must be the name of one service")
	case service != "" && len(groups) > 1:
		return "", errors.New("one service is for one group; without a name, each group's is its own name")
	}
	return service, nil
}
