// Package transport makes connections to an API server.
package transport

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// New returns a transport like client-go's. It gives up a connection on which
// nothing comes in after 8 s; client-go's own waits for 45 s. It reads the files
// of certificates at each handshake. The configuration is not changed, and must
// not be changed later.
func New(config *rest.Config) (*http.Transport, error) {
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	return &http.Transport{
		Proxy: proxy, TLSClientConfig: secure, // through a proxy
		DialTLSContext:      tlsfiles.Dial(func() (*tls.Config, error) { return rest.TLSConfigFor(rest.CopyConfig(config)) }, "h2", "http/1.1"),
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		DialContext:       (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ForceAttemptHTTP2: true,
		HTTP2:             base.HTTP2(),
	}, nil
}
