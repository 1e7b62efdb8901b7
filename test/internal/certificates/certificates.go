// Package certificates makes the certificates of the project's tests.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Issue writes a certificate and its key to NAME.pem and NAME.key, for two
// days; without an authority it vouches for itself.
func Issue(dir, name string, c, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if by == nil {
		by, byKey = c, key
	}
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(48*time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
	if err != nil {
		return nil, nil, err
	}
	rawKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: raw},
		name + ".key": {Type: "EC PRIVATE KEY", Bytes: rawKey},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	parsed, err := x509.ParseCertificate(raw)
	return parsed, key, err
}

// Set writes the certificates of an authority (ca), of a server on the loopback
// interface (server) and of a client (client) to a directory of the test, which
// it returns.
func Set(tb testing.TB) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	ca, caKey, err := Issue(dir, "ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for name, c := range map[string]*x509.Certificate{
		"server": {
			Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			// Replicas are clients.
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		},
		"client": {Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		if _, _, err := Issue(dir, name, c, ca, caKey); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}
