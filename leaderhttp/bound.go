package leaderhttp

import (
	"crypto/tls"
	"net/http"

	"github.com/seed-ff2cb582/leader"
)

// below returns the transport that sends a request to a leader. Under TLS it
// checks the leader's certificate for the name that Options.ServerName returns.
func (t *Transport) below(scheme string, to leader.LeaderInfo) http.RoundTripper {
	base, ok := t.opts.Transport.(*http.Transport)
	if !ok || scheme != "https" {
		return t.opts.Transport
	}
	name := t.opts.ServerName(to)
	if name == "" {
		return base
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bound == nil || t.boundTo != name {
		// Connections are kept by address, and were checked for one name.
		if t.bound != nil {
			t.bound.CloseIdleConnections()
		}
		t.bound, t.boundTo = bind(base, name), name
	}
	return t.bound
}

// bind returns a copy that checks certificates for a name.
func bind(base *http.Transport, name string) *http.Transport {
	b := base.Clone()
	if base.TLSNextProto["h2"] != nil { // Clone has set it if it is to be used
		// The copy needs its own HTTP/2 connections, since base checked its
		// connections for other names.
		b.TLSNextProto, b.ForceAttemptHTTP2 = nil, true
	}
	if b.TLSClientConfig == nil {
		b.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if b.TLSClientConfig.ServerName == "" {
		b.TLSClientConfig.ServerName = name
	}
	return b
}
