package k8sstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed-ff2cb582/leader/kubernetes/internal/transport"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

const form = "k8s://[NAMESPACE][/PREFIX][?context=NAME&kubeconfig=FILE]"

// Driver opens stores by URLs such as
//
//	k8s://default
//	k8s://apps/team-a-?context=production
//	k8s://
//
// The host is the namespace; without one it is the namespace of the
// kubeconfig's context, or the pod's own. The path without its first slash is
// the prefix ([Options.Prefix]). The API server is taken from the file
// kubeconfig, else from $KUBECONFIG or ~/.kube/config, else it is the server of
// the cluster in whose pod the program runs.
func Driver() store.Driver {
	return base.Driver(form, openURL, "k8s")
}

// Open returns a store with its own connections, which Close closes, once the
// API server has answered. See [Driver] for the URL. Errors are classified as
// in package store.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	return base.Open[*Store](ctx, rawURL, Driver())
}

func openURL(ctx context.Context, u *url.URL) (*Store, error) {
	config, opts, err := configOf(u)
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	s, err := NewForConfig(config, opts)
	if err != nil {
		return nil, base.InvalidURL(err)
	}
	return base.Reached(ctx, s, s.Store, func(ctx context.Context) error {
		_, err := source{s.client}.Read(ctx, nil)
		return err
	})
}

// ClientConfig is a client's configuration and the namespace by a URL of
// [Driver], whose path it leaves aside, for programs that use the same API
// server for more than a store. Nothing is sent. The error names the fault in
// the URL.
func ClientConfig(u *url.URL) (config *rest.Config, namespace string, err error) {
	config, opts, err := configOf(u)
	return config, opts.Namespace, err
}

// configOf is the client's configuration and the store's options by a URL.
func configOf(u *url.URL) (*rest.Config, Options, error) {
	var opts Options
	q := base.Parameters(u)
	kubeconfig, kubecontext := q.Text("kubeconfig"), q.Text("context")
	if err := q.Fault(); err != nil {
		return nil, opts, err
	}
	if u.User != nil || u.Port() != "" {
		return nil, opts, errors.New("it names a namespace, and the kubeconfig names the API server and its user: " + form)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.WarnIfAllMissing = false
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubecontext})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, opts, fmt.Errorf("no way to an API server: %w", err)
	}
	opts.Namespace, opts.Prefix = u.Hostname(), strings.TrimPrefix(u.Path, "/")
	if opts.Namespace == "" {
		if opts.Namespace, _, err = loader.Namespace(); err != nil {
			return nil, opts, fmt.Errorf("no namespace: %w", err)
		}
	}
	return config, opts, nil
}

// NewForConfig returns a store with its own connections, which Close closes.
// Nothing is sent. The configuration is not changed; its rate limits, content
// types, Timeout and handler of warnings do not apply, nor does its Dial or
// Transport.
func NewForConfig(config *rest.Config, opts Options) (*Store, error) {
	if config == nil {
		return nil, errors.New("k8sstore: config: must not be nil")
	}
	own := rest.CopyConfig(config)
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("k8sstore: %w", err)
	}
	version := coordinationv1.SchemeGroupVersion
	own.GroupVersion, own.APIPath = &version, "/apis"
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	own.WarningHandler, own.WarningHandlerWithContext = rest.NoWarnings{}, nil
	connections, err := transport.New(own)
	if err != nil {
		return nil, fmt.Errorf("k8sstore: config: %w", err)
	}
	wrapped, err := rest.HTTPWrappersForConfig(own, connections)
	if err != nil {
		return nil, fmt.Errorf("k8sstore: config: %w", err)
	}
	client, err := rest.RESTClientForConfigAndClient(own, &http.Client{Transport: wrapped})
	if err != nil {
		return nil, fmt.Errorf("k8sstore: config: %w", err)
	}
	return newStore(client, opts, func() error {
		connections.CloseIdleConnections()
		return nil
	})
}
