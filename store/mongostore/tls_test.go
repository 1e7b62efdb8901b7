package mongostore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seed-ff2cb582/leader/store/tlsfiles"
	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestCertificatesAreReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	tlsfilestest.Run(t, func(address string, f tlsfiles.Files) func(context.Context) {
		both := filepath.Join(t.TempDir(), "both.pem") // as the driver wants it
		join(t, both, f)
		client, err := mongo.Connect(clientOptions(&url.URL{Scheme: "mongodb", Host: address, Path: "/leader", RawQuery: url.Values{
			"tls": {"true"}, "tlsCAFile": {f.CA}, "tlsCertificateKeyFile": {both},
		}.Encode()}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
		return func(ctx context.Context) {
			join(t, both, f)
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_ = client.Ping(ctx, nil)
		}
	})
}

// join writes certificate and key into one file.
func join(t *testing.T, to string, f tlsfiles.Files) {
	t.Helper()
	var all []byte
	for _, name := range []string{f.Cert, f.Key} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		all = append(all, b...)
	}
	if err := os.WriteFile(to+".new", all, 0o600); err != nil {
		t.Error(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Error(err)
	}
}

// The driver refuses a server whose certificate demands a proof that it is not
// revoked, if the server shows none.
func TestFilesKeepTheDriversChecksOfRevocation(t *testing.T) {
	t.Parallel()
	address, ca := unproved(t)
	for query, refused := range map[string]bool{
		"": true, "&tlsDisableOCSPEndpointCheck=true": true, "&tlsDisableCertificateRevocationCheck=true": false, "&tlsInsecure=true": false,
	} {
		o := clientOptions(&url.URL{Scheme: "mongodb", Host: address, Path: "/leader", RawQuery: url.Values{"tls": {"true"}, "tlsCAFile": {ca}}.Encode() + query})
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		c, err := o.Dialer.DialContext(t.Context(), "tcp", address)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "OCSP") {
			t.Errorf("with %q: %v", query, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// unproved starts a server whose certificate has the extension Must-Staple, and
// which staples nothing. It returns the file of the authority, too.
func unproved(t *testing.T) (address, ca string) {
	t.Helper()
	mustStaple, err := asn1.Marshal([]int{5})
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}, Value: mustStaple}},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).HandshakeContext(t.Context()) //nolint:errcheck,forcetypeassert // of tls.Listen
			_ = c.Close()
		}
	}()
	return ln.Addr().String(), ca
}
