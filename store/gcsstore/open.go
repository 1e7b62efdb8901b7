package gcsstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	htransport "google.golang.org/api/transport/http"

	"github.com/seed-ff2cb582/leader/store"
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
	return store.Driver{
		Schemes: []string{"gs"},
		Form:    form,
		Open: func(ctx context.Context, u *url.URL) (store.Opened, error) {
			s, err := openURL(ctx, u)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

// Open returns a store with a client of its own, whose connections Close
// closes, once the server has answered. See [Driver] for the URL. Errors are
// classified as those of package store.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	opened, err := store.Open(ctx, rawURL, Driver())
	if err != nil {
		return nil, err
	}
	s, ok := opened.(*Store)
	if !ok {
		return nil, fmt.Errorf("%w: opened a %T", store.ErrPermanent, opened)
	}
	return s, nil
}

// settings are what a URL says.
type settings struct {
	Options
	endpoint  string
	anonymous bool
}

// parse reads a URL.
func parse(u *url.URL) (settings, error) {
	set := settings{Options: Options{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return set, fmt.Errorf("its query: %w", err)
	}
	if u.User != nil {
		return set, errors.New("it has a user: credentials are found otherwise")
	}
	for name := range query {
		text := query.Get(name)
		switch name {
		case "project":
			set.Project = text
		case "create":
			if set.Create, err = strconv.ParseBool(text); err != nil {
				return set, fmt.Errorf("create=%q: must be true or false", text)
			}
		case "endpoint":
			e, err := url.Parse(text)
			if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
				return set, errors.New("endpoint: must be a URL with http or https")
			}
			set.endpoint = strings.TrimSuffix(text, "/") + "/storage/v1/"
		case "auth":
			if set.anonymous = text == "none"; !set.anonymous {
				return set, fmt.Errorf("auth=%q: must be none, or be left out", text)
			}
		default:
			return set, fmt.Errorf("the parameter %q is unknown; known are project, create, endpoint and auth", name)
		}
	}
	return set, nil
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	set, err := parse(u)
	if err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	if _, err := New(&storage.Service{}, set.Options); err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	service, release, err := connect(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("%w: the settings for Google Cloud: %w", store.ErrPermanent, err)
	}
	s, err := New(service, set.Options)
	if err != nil {
		return nil, err
	}
	s.release = release
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

// The times after which a connection is given up on which nothing comes in any
// more. HTTP/2 asks by itself on none: where a firewall forgets one without a
// word, each call times out alone, and the next takes the same connection, for
// as long as the system sends again, a quarter of an hour.
const (
	pingAfter   = 5 * time.Second
	pingTimeout = 3 * time.Second
)

// connect makes a service, and the transport that it has for itself. The
// context is that of the credentials, which outlive the call.
func connect(ctx context.Context, set settings) (service *storage.Service, release func(), err error) {
	ctx = context.WithoutCancel(ctx)
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		base = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	base = base.Clone()
	base.MaxIdleConnsPerHost = 16 // as many as a look has
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	opts := []option.ClientOption{option.WithScopes(storage.DevstorageReadWriteScope), option.WithTelemetryDisabled()}
	if set.anonymous {
		opts = []option.ClientOption{option.WithoutAuthentication(), option.WithTelemetryDisabled()}
	}
	transport, err := htransport.NewTransport(ctx, base, opts...)
	if err != nil {
		return nil, nil, err
	}
	use := []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: transport})}
	if set.endpoint != "" {
		use = append(use, option.WithEndpoint(set.endpoint))
	}
	service, err = storage.NewService(ctx, use...)
	return service, base.CloseIdleConnections, err
}
