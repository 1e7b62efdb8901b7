package gcsstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	htransport "google.golang.org/api/transport/http"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// form shows what a URL looks like.
const form = "gs://BUCKET[/PREFIX][?project=…&create=true&endpoint=URL&auth=none]"

// Driver opens stores by URLs such as
//
//	gs://my-bucket/elections
//	gs://my-bucket?endpoint=http://127.0.0.1:4443&auth=none
//
// The path is the prefix ([Options.Prefix]). Credentials are found as by other
// tools for Google Cloud (Application Default Credentials): by
// GOOGLE_APPLICATION_CREDENTIALS, from gcloud, or from the machine's service
// account. With auth=none there are none, as for an emulator.
func Driver() store.Driver {
	return base.Driver(form, openURL, "gs")
}

// Open makes a client, and returns a store on it once the server has answered.
// Close closes the client's connections. See [Driver] for the URL. Errors are
// classified like the errors of package store.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
}

// settings are the settings in a URL.
type settings struct {
	Options
	endpoint  string
	anonymous bool
}

// parse reads a URL.
func parse(u *url.URL) (settings, error) {
	set := settings{Options: Options{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}}
	if u.User != nil {
		return set, base.InvalidURL(errors.New("it has a user: credentials are found otherwise"))
	}
	q := base.Parameters(u)
	set.Project, set.Create = q.Text("project"), q.Bool("create")
	if set.endpoint = q.Endpoint("endpoint"); set.endpoint != "" {
		set.endpoint = strings.TrimSuffix(set.endpoint, "/") + "/storage/v1/"
	}
	auth := q.Text("auth")
	if set.anonymous = auth == "none"; !set.anonymous && auth != "" {
		return set, base.InvalidURL(fmt.Errorf("auth=%q: must be none, or be left out", auth))
	}
	return set, q.Done()
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	set, err := parse(u)
	if err != nil {
		return nil, err
	}
	if _, err := New(&storage.Service{}, set.Options); err != nil {
		return nil, base.InvalidURL(err)
	}
	service, release, err := connect(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("%w: the settings for Google Cloud: %w", store.ErrPermanent, err)
	}
	s, err := newStore(service, set.Options, release)
	if err != nil {
		return nil, err
	}
	if err := s.reach(ctx); err != nil {
		_ = s.Close() // which returns nil
		return nil, err
	}
	return s, nil
}

// reach finds out whether the bucket can be used, or made.
func (s *Store) reach(ctx context.Context) error {
	if s.create {
		return s.Ping(ctx) // Check makes it
	}
	return s.exists(ctx)
}

// connect makes a service, and a transport for it alone. The context is used by
// the credentials, which outlive the call.
func connect(ctx context.Context, set settings) (service *storage.Service, release func() error, err error) {
	ctx = context.WithoutCancel(ctx)
	own, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		own = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	own = own.Clone()
	own.MaxIdleConnsPerHost = 16 // as many as a look has
	own.HTTP2 = base.HTTP2()
	opts := []option.ClientOption{option.WithScopes(storage.DevstorageReadWriteScope), option.WithTelemetryDisabled()}
	if set.anonymous {
		opts = []option.ClientOption{option.WithoutAuthentication(), option.WithTelemetryDisabled()}
	}
	transport, err := htransport.NewTransport(ctx, own, opts...)
	if err != nil {
		return nil, nil, err
	}
	use := []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: transport})}
	if set.endpoint != "" {
		use = append(use, option.WithEndpoint(set.endpoint))
	}
	service, err = storage.NewService(ctx, use...)
	return service, func() error { own.CloseIdleConnections(); return nil }, err
}
