package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Hosts is the flag for further names of a server that needs no token.
// Commands embed it.
type Hosts struct {
	AllowHost []string `name:"allow-host" placeholder:"NAME" help:"A further name by which requests may reach the metrics and probes; without it, IP addresses, localhost, this machine's name, that of the address, and names without a dot."`
}

// CheckHosts returns what is wrong with the names.
func (h Hosts) CheckHosts() error {
	for _, name := range h.AllowHost {
		if name == "" || hostOf(name) != name {
			return fmt.Errorf("--allow-host %q: must be a name without a port, such as leader.example.com", name)
		}
	}
	return nil
}

// ListenOpen is Listen for what needs no token. It refuses requests whose Host
// is a name that this server is not known to have: a site on the internet may
// have its own name resolve to an address here, and its page, in a browser that
// reaches that address, would read the answers as its own.
//
// An IP address is not such a name. Nor is a name without a dot, which no site
// has. A request without a Host, of HTTP/1.0, does not come from a browser.
func ListenOpen(ctx context.Context, flag, address string, hosts Hosts, h http.Handler) (*Server, error) {
	known := hosts.AllowHost
	if own := hostOf(address); own != "" {
		known = append(slices.Clip(known), own)
	}
	if own, err := os.Hostname(); err == nil {
		known = append(slices.Clip(known), own)
	}
	return Listen(ctx, flag, address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answersTo(r.Host, known) {
			http.Error(w, fmt.Sprintf("the name %q is not known to be this server's: ask by an IP address, or start it with --allow-host", hostOf(r.Host)), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	}))
}

// answersTo reports whether a request's Host header is an IP address, a name
// that no site on the internet has, or one of the known names.
func answersTo(header string, known []string) bool {
	host := hostOf(header)
	return Loopback(host) || net.ParseIP(host) != nil || !strings.Contains(host, ".") ||
		slices.ContainsFunc(known, func(name string) bool { return strings.EqualFold(name, strings.TrimSuffix(host, ".")) })
}

// hostOf is the host of an address or of a Host header, without its port and
// the brackets of IPv6.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	return host
}
