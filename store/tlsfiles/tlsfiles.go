// Package tlsfiles makes TLS connections with certificates that are read from
// their files for each handshake. A certificate that was renewed is used without
// a restart, as it has to be where it lasts for a day.
package tlsfiles

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Files name the files of a client, as the parameters ca, cert and key of a
// URL do. An empty name is none.
type Files struct {
	CA        string // the authorities to trust
	Cert, Key string // of the client
}

// Config returns a copy of base with what the files hold now. base may be nil.
func (f Files) Config(base *tls.Config) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		config = base.Clone()
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("of the parameters cert and key one is missing")
	}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("the parameter ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the parameter ca: %s holds no certificate", f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("the parameters cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// dialTimeout bounds a dial, with its handshake, as the clients that use this
// package did before.
const dialTimeout = 10 * time.Second

// Dial returns a function that makes connections, as http.Transport wants it in
// DialTLSContext, with a configuration that it asks for each time; nil is the
// default. protocols are what it offers to speak, such as h2. It may be called
// concurrently if config may.
func Dial(config func() (*tls.Config, error), protocols ...string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		fresh, err := config()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		own := &tls.Config{MinVersion: tls.VersionTLS12}
		if fresh != nil {
			own = fresh.Clone()
		}
		own.ServerName = cmp.Or(own.ServerName, hostOf(address))
		own.NextProtos = protocols
		d := tls.Dialer{NetDialer: &net.Dialer{KeepAlive: 30 * time.Second}, Config: own}
		return d.DialContext(ctx, network, address)
	}
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
