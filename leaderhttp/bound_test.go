package leaderhttp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
)

// An authority signs the certificates of servers.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	a.cert, a.key = a.issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) issue(t *testing.T, of *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of.SerialNumber, of.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// transport trusts the authority, and speaks HTTP/2 as http.DefaultTransport.
func (a *authority) transport() *http.Transport {
	return &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS13}}
}

// serve starts a server whose certificate is good for names, and for its
// address. It counts requests.
func (a *authority) serve(t *testing.T, h http.HandlerFunc, names ...string) (url string, asked *atomic.Int32) {
	t.Helper()
	cert, key := a.issue(t, &x509.Certificate{DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	asked = new(atomic.Int32)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h(w, r)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, asked
}

func named(name string) func(leader.LeaderInfo) string {
	return func(leader.LeaderInfo) string { return name }
}

func TestUnderTLSALeaderIsBoundToItsGroup(t *testing.T) {
	ca := newAuthority(t)
	host, hosts := ca.serve(t, status(200), "host-1.example")
	group, groups := ca.serve(t, func(w http.ResponseWriter, r *http.Request) { status(200+r.ProtoMajor)(w, r) }, "reports")
	own := ca.transport()
	own.TLSClientConfig.ServerName = "host-1.example"
	for name, c := range map[string]struct {
		address   string
		transport http.RoundTripper
		of        func(leader.LeaderInfo) string
		served    bool
	}{
		"the group's name":                {group, ca.transport(), nil, true},
		"the name of a host":              {host, ca.transport(), nil, false},
		"a name that is said":             {host, ca.transport(), named("host-1.example"), true},
		"another name than is said":       {group, ca.transport(), named("host-1.example"), false},
		"the host of the address":         {host, ca.transport(), named(""), true},
		"a name of the transport":         {host, own, nil, true},
		"the rules of another transport":  {host, traced{ca.transport()}, nil, true},
		"a name of the transport, not so": {group, own, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := hosts.Load() + groups.Load()
			client := reach(t, told(nil, at("a", c.address, 1)), leaderhttp.Options{Transport: c.transport, ServerName: c.of, RetryFor: -1})
			code, _, err := waitFor(client)
			asked := hosts.Load() + groups.Load() - before
			if served := err == nil; served != c.served || served != (asked == 1) {
				t.Errorf("%d, %v after %d requests", code, err, asked)
			}
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok && err != nil {
				t.Errorf("%v", err)
			}
			if c.address == group && c.served && code != 202 {
				t.Errorf("%d: not by HTTP/2", code)
			}
		})
	}
}

// waitFor sends a request when the leader is known.
func waitFor(client *http.Client) (status int, text string, err error) {
	for end := time.Now().Add(patience); ; {
		status, text, err = post(client, "https://reports/", strings.NewReader("x"))
		if !errors.Is(err, leaderhttp.ErrNoLeader) || time.Now().After(end) {
			return status, text, err
		}
	}
}

// A traced transport is one of another type.
type traced struct{ http.RoundTripper }

// The refusal may be of a server that was taken over, or misled.
func TestUnderTLSNoRefusalTakesCredentialsToAStranger(t *testing.T) {
	ca := newAuthority(t)
	stranger, strayed := ca.serve(t, status(200), "stranger.example")
	address, asked := ca.serve(t, refusal(307, probe.RefusalElsewhere, "Location", stranger, probe.TermHeader, "9"), "reports")
	client := reach(t, told(nil, at("a", address, 1)), leaderhttp.Options{Transport: ca.transport()})
	_, _, err := post(client, "https://reports/", strings.NewReader("x"))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || strayed.Load() != 0 || asked.Load() != 1 {
		t.Errorf("%v after %d requests, and %d to the stranger", err, asked.Load(), strayed.Load())
	}
}

// Connections are kept by address, and were checked for one name.
func TestAConnectionServesNoLeaderOfAnotherName(t *testing.T) {
	ca := newAuthority(t)
	address, asked := ca.serve(t, status(200), "one.example")
	news := make(chan leader.LeaderInfo)
	client := reach(t, told(news, at("one", address, 1)), leaderhttp.Options{
		Transport: ca.transport(), ServerName: func(l leader.LeaderInfo) string { return l.ID + ".example" },
	})
	if code, _, err := post(client, "https://reports/", nil); err != nil || code != 200 {
		t.Fatal(code, err)
	}
	for range 2 { // the second is taken when the first has been
		news <- at("two", address, 2)
	}
	_, _, err := post(client, "https://reports/", nil)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || asked.Load() != 1 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}
