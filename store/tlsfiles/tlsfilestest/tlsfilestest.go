// Package tlsfilestest tests that a client reads its TLS files at each handshake.
package tlsfilestest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// A TB is a test, of the methods that [Run] needs: package testing is for files
// of tests alone.
type TB interface {
	Helper()                           // as testing.TB has it, and all others
	TempDir() string                   // for the files
	Cleanup(end func())                // ends the server
	Context() context.Context          // ends connect
	Errorf(format string, args ...any) // a certificate that no client has shown or accepted
	Fatal(args ...any)                 // no server
}

// Run starts a server that demands a certificate of its clients, and ends each
// connection when it has seen one. connect is to make at least one connection
// to it, with the files, each time that the function that it returns is called;
// what comes of that is of no interest. Between two calls all certificates are
// renewed, by another authority.
func Run(t TB, connect func(address string, files tlsfiles.Files) (again func(context.Context))) {
	t.Helper()
	s := &server{dir: t.TempDir(), clients: tls.RequireAndVerifyClientCert, seen: make(chan string, 1)}
	s.run(t, connect)
}

// RunAuthorities is Run for clients that have no certificate. The server ends
// each connection when the client has accepted the certificate of the server.
func RunAuthorities(t TB, connect func(address, ca string) (again func(context.Context))) {
	t.Helper()
	s := &server{dir: t.TempDir(), clients: tls.NoClientCert, seen: make(chan string, 1)}
	s.run(t, func(address string, files tlsfiles.Files) func(context.Context) { return connect(address, files.CA) })
}

type server struct {
	dir     string
	clients tls.ClientAuthType
	seen    chan string // the names of certificates that were shown, or accepted
}

func (s *server) run(t TB, connect func(address string, files tlsfiles.Files) (again func(context.Context))) {
	t.Helper()
	s.renew(t, "first")
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go s.serve(ln)
	again := connect(ln.Addr().String(), s.files())
	for _, name := range []string{"first", "second"} {
		s.renew(t, name)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil { // one that is answered by nobody may be given up
				again(ctx)
			}
		}()
		late := time.After(patience)
		for seen := ""; seen != name; {
			select {
			case seen = <-s.seen:
			case <-late:
				t.Errorf("no client has shown, or accepted, the %s certificate", name)
				seen = name
			}
		}
		cancel()
		<-done
	}
}

func (s *server) files() tlsfiles.Files {
	return tlsfiles.Files{CA: s.path("ca"), Cert: s.path("cert"), Key: s.path("key")}
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name+".pem") }

// renew writes an authority, and a certificate of it for both sides.
func (s *server) renew(t TB, name string) {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, &root.PublicKey, root)
	must(err)
	cert, err := x509.CreateCertificate(rand.Reader, leaf, authority, &own.PublicKey, root)
	must(err)
	key, err := x509.MarshalPKCS8PrivateKey(own)
	must(err)
	for file, block := range map[string]*pem.Block{"ca": {Type: "CERTIFICATE", Bytes: ca}, "cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: key}} {
		must(os.WriteFile(s.path(file), pem.EncodeToMemory(block), 0o600))
	}
}

// config is the server's, by the files as they are.
func (s *server) config() (*tls.Config, error) {
	config, err := s.files().Config(nil)
	if err == nil {
		config.ClientAuth, config.ClientCAs, config.NextProtos = s.clients, config.RootCAs, []string{"h2", "http/1.1", "postgresql"}
	}
	return config, err
}

func (s *server) serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		// A client knows whether it was let in when it reads.
		if name, ok := s.handshake(conn); ok {
			select {
			case s.seen <- name:
			default: // nobody has taken the last one
			}
		}
		_ = conn.Close()
	}
}

// handshake returns the name of the client's certificate, or of the server's if
// the client has none.
func (s *server) handshake(conn net.Conn) (name string, ok bool) {
	config, err := s.config()
	if err != nil {
		return "", false // the files are being renewed
	}
	secure := tls.Server(conn, config)
	if secure.HandshakeContext(context.Background()) != nil {
		return "", false
	}
	shown := secure.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		shown = []*x509.Certificate{config.Certificates[0].Leaf}
	}
	_ = secure.Close()
	return shown[0].Subject.CommonName, true
}
