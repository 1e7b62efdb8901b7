package natsstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Driver opens buckets by URLs such as nats://USER:PASSWORD@HOST:4222/BUCKET,
// on a separate connection for each, which reconnects for ever. The schemes are
// the schemes of NATS. A query may set more: domain is the JetStream domain,
// creds a file of credentials, create=true makes a missing bucket, and replicas
// is its number of copies.
func Driver() store.Driver {
	return store.Driver{
		Schemes: []string{"nats", "tls", "ws", "wss"},
		Form:    "nats://HOST[:4222]/BUCKET[?domain=NAME&creds=FILE&create=true&replicas=N]",
		Open:    openURL,
	}
}

// An opened is a Store with its own connection. [New] leaves a connection to
// its caller. Here nobody else has it, so it ends with the store.
type opened struct {
	*Store
	close func()
}

// Close ends the store's watches and closes the connection.
func (o opened) Close() error {
	o.close()
	return nil
}

func openURL(ctx context.Context, u *url.URL) (store.Opened, error) {
	opts, creds, err := optionsOf(u)
	if err != nil {
		return nil, err
	}
	// The path and the query are ours. The client library gets what is left,
	// which is a server.
	server, bucket := *u, strings.Trim(u.Path, "/")
	server.Path, server.RawPath, server.RawQuery, server.Scheme = "", "", "", strings.ToLower(u.Scheme)
	if !validBucket(bucket) {
		return nil, fmt.Errorf("%w: the URL's path %q: must name a bucket, of letters, digits, - and _", store.ErrInvalid, u.Path)
	}
	nc, err := connect(ctx, server.String(), creds)
	if err != nil {
		return nil, err
	}
	st, err := New(nc, bucket, opts)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	// The store first: otherwise its listeners would learn that a connection
	// was permanently closed, and elections would end.
	return opened{st, sync.OnceFunc(func() { st.Close(); nc.Close() })}, nil
}

// connect connects before ctx is done. The client library takes a length of
// time and no context: what is left of that, as the call begins.
func connect(ctx context.Context, server, creds string) (*nats.Conn, error) {
	wait := DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	if err := ctx.Err(); err != nil || wait <= 0 {
		return nil, fmt.Errorf("%w: not connected: %w", store.ErrTransient, context.Cause(ctx))
	}
	// It reconnects for ever, after a refusal of the user as well: an election
	// outlives a restart of the servers, and a change of their users.
	all := []nats.Option{nats.MaxReconnects(-1), nats.Timeout(wait), nats.Name("leader"), nats.IgnoreAuthErrorAbort()}
	if creds != "" {
		all = append(all, nats.UserCredentials(creds))
	}
	nc, err := nats.Connect(server, all...)
	switch {
	// A wrong user is a person's to put right; a server that is away comes
	// back.
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("%w: connecting: %w", store.ErrPermanent, err)
	case err != nil:
		return nil, fmt.Errorf("%w: connecting: %w", store.ErrTransient, err)
	}
	return nc, nil
}

// optionsOf reads the options in a URL's query.
func optionsOf(u *url.URL) (opts Options, creds string, err error) {
	q := base.Parameters(u)
	opts.Domain, creds = q.Text("domain"), q.Text("creds")
	create, replicas := q.Bool("create"), q.Int("replicas")
	if err := q.Done(); err != nil {
		return Options{}, "", err
	}
	// An option without effect is a mistake of who wrote the URL.
	if replicas != 0 && !create {
		return Options{}, "", base.InvalidURL(fmt.Errorf("replicas=%d: has no effect without create=true", replicas))
	}
	if create {
		opts.Create = &BucketConfig{Replicas: replicas}
	}
	return opts, creds, nil
}
