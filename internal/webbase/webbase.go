// Package webbase reads the addresses of leaders that are web servers, for the
// server that sends clients there and for the client that goes there by itself.
package webbase

import (
	"net/netip"
	"net/url"
	"strings"
)

// Parse reads an address: an http or https URL, or a host with a port, which is
// asked with the given scheme. ok is false for anything else, because the
// address comes from a record.
func Parse(address, scheme string) (*url.URL, bool) {
	if !strings.Contains(address, "://") {
		address = scheme + "://" + address
	}
	u, err := url.Parse(address)
	return u, err == nil && Valid(u)
}

// Valid reports whether u, which may be nil, is the URL of a web server on a
// host.
func Valid(u *url.URL) bool {
	return u != nil && IsHost(u.Hostname()) && (u.Scheme == "http" || u.Scheme == "https")
}

// IsHost reports whether the host of an address is one to connect to. An
// address to listen on, ":8080" or "0.0.0.0:8080", names none, and would lead
// each client to its own machine.
func IsHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host != "" && (err != nil || !ip.Unmap().WithZone("").IsUnspecified())
}

// Below returns where a request for u is to be sent: the same path below
// base's. The query is left to the caller.
func Below(base, u *url.URL) url.URL {
	prefix := strings.TrimSuffix(base.Path, "/")
	return url.URL{
		Scheme: base.Scheme, Host: base.Host,
		Path: prefix + u.Path, RawPath: strings.TrimSuffix(base.EscapedPath(), "/") + u.EscapedPath(),
	}
}
