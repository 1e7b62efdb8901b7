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
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
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
// none is set, are found as by other tools for AWS: in the environment, in the
// files of ~/.aws, or from the machine's role. The URL may contain a key and
// its secret instead. With an endpoint the bucket's name is part of the path
// (path_style), and the region us-east-1, unless set otherwise.
func Driver() store.Driver {
	return base.Driver(form, openURL, "s3")
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
	region, endpoint, profile string
	user                      *url.Userinfo
	pathStyle                 bool
}

// parse reads a URL.
func parse(u *url.URL) (settings, error) {
	set := settings{Options: Options{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}, user: u.User}
	if !validBucket(set.Bucket) {
		return set, base.InvalidURL(fmt.Errorf("its host %q: must be the name of a bucket", set.Bucket))
	}
	q := base.Parameters(u)
	set.region, set.endpoint, set.profile = q.Text("region"), q.Endpoint("endpoint"), q.Text("profile")
	set.pathStyle, set.Create = q.Bool("path_style"), q.Bool("create")
	if u.Query().Get("path_style") == "" {
		set.pathStyle = set.endpoint != ""
	}
	if _, has := u.User.Password(); u.User != nil && !has {
		return set, base.InvalidURL(errors.New("a key needs its secret: " + form))
	}
	return set, q.Done()
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	set, err := parse(u)
	if err != nil {
		return nil, err
	}
	client, transport, err := connect(ctx, set)
	if err != nil {
		return nil, err
	}
	s, err := newStore(client, set.Options, func() error { transport.CloseIdleConnections(); return nil })
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	if err := s.Ping(ctx); err != nil && (!s.create || code(err) != noSuchBucket) {
		_ = s.Close() // which returns nil
		return nil, err
	}
	return s, nil
}

// dialTimeout is less than the timeout of a call, so that an address that does
// not answer is left for the next one.
const dialTimeout = 3 * time.Second

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
	transport.HTTP2 = base.HTTP2()
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		o.UsePathStyle = set.pathStyle
		if set.endpoint != "" {
			o.BaseEndpoint = aws.String(set.endpoint)
		}
	}), transport, nil
}
