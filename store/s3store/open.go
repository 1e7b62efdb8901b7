package s3store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// form shows what a URL looks like.
const form = "s3://[KEY:SECRET@]BUCKET[/PREFIX][?region=…&endpoint=URL&path_style=true&profile=NAME&create=true]"

// Driver opens stores by URLs such as
//
//	s3://my-bucket/elections?region=eu-central-1
//	s3://my-bucket?endpoint=https://minio.example:9000
//
// The path is the prefix ([Options.Prefix]). Credentials, and the region where
// none is stated, are found as by other tools for AWS: in the environment, in
// the files of ~/.aws, or from the machine's role. A key and its secret may
// stand in the URL in their place. With an endpoint the bucket's name is part
// of the path (path_style), and the region us-east-1, unless stated otherwise.
func Driver() store.Driver {
	return store.Driver{
		Schemes: []string{"s3"},
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
	region, endpoint, profile string
	user                      *url.Userinfo
	pathStyle                 bool
}

// parse reads a URL.
func parse(u *url.URL) (settings, error) {
	set := settings{Options: Options{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}, user: u.User}
	if !validBucket(set.Bucket) {
		return set, fmt.Errorf("its host %q: must be the name of a bucket", set.Bucket)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return set, fmt.Errorf("its query: %w", err)
	}
	set.region, set.endpoint, set.profile = query.Get("region"), query.Get("endpoint"), query.Get("profile")
	set.pathStyle = set.endpoint != ""
	if set.endpoint != "" {
		if e, err := url.Parse(set.endpoint); err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
			return set, errors.New("endpoint: must be a URL with http or https")
		}
	}
	for name := range query {
		text := query.Get(name)
		switch name {
		case "region", "endpoint", "profile":
		case "path_style", "create":
			on, err := strconv.ParseBool(text)
			if err != nil {
				return set, fmt.Errorf("%s=%q: must be true or false", name, text)
			}
			if name == "create" {
				set.Create = on
			} else {
				set.pathStyle = on
			}
		default:
			return set, fmt.Errorf("the parameter %q is unknown; known are region, endpoint, path_style, profile and create", name)
		}
	}
	if _, has := u.User.Password(); u.User != nil && !has {
		return set, errors.New("a key needs its secret: " + form)
	}
	return set, nil
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	set, err := parse(u)
	if err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	client, transport, err := connect(ctx, set)
	if err != nil {
		return nil, err
	}
	s, err := New(client, set.Options)
	if err != nil {
		return nil, fmt.Errorf("%w: the store's URL: %w", store.ErrInvalid, err)
	}
	s.release = transport.CloseIdleConnections
	if err := s.Ping(ctx); err != nil && (!s.create || code(err) != noSuchBucket) {
		_ = s.Close() // which returns nil
		return nil, err
	}
	return s, nil
}

// dialTimeout is less than that of a call, so that an address that does not
// answer is left for the next one.
const dialTimeout = 3 * time.Second

// The times after which a connection is given up on which nothing comes in any
// more. HTTP/2 asks by itself on none: where a firewall forgets one without a
// word, each call times out alone, and the next takes the same connection, for
// as long as the system sends again, a quarter of an hour.
const (
	pingAfter   = 5 * time.Second
	pingTimeout = 3 * time.Second
)

// connect makes a client, which follows no redirects, and the transport that it
// has for itself.
func connect(ctx context.Context, set settings) (*s3.Client, *http.Transport, error) {
	load := []func(*config.LoadOptions) error{config.WithHTTPClient(awshttp.NewBuildableClient())}
	if set.region != "" {
		load = append(load, config.WithRegion(set.region))
	}
	if set.profile != "" {
		load = append(load, config.WithSharedConfigProfile(set.profile))
	}
	if set.user != nil {
		secret, _ := set.user.Password()
		load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(set.user.Username(), secret, "")))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the settings for AWS: %w", store.ErrPermanent, err)
	}
	if cfg.Region == "" {
		if set.endpoint == "" && cfg.BaseEndpoint == nil {
			return nil, nil, fmt.Errorf("%w: no region is known: state it by region= in the URL, or by AWS_REGION", store.ErrPermanent)
		}
		cfg.Region = home
	}
	transport := &http.Transport{}
	// It has the certificates that the environment names.
	if b, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		transport = b.WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).GetTransport()
	}
	// Read the bundle for each connection, because it may be renewed.
	if bundle := os.Getenv("AWS_CA_BUNDLE"); bundle != "" {
		transport.DialTLSContext = tlsfiles.Dial(func() (*tls.Config, error) {
			return tlsfiles.Files{CA: bundle}.Config(transport.TLSClientConfig)
		}, "h2", "http/1.1")
	}
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		o.UsePathStyle = set.pathStyle
		if set.endpoint != "" {
			o.BaseEndpoint = aws.String(set.endpoint)
		}
	}), transport, nil
}
