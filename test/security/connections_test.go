package security_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// shortElection elects, hands over and observes on connections that connect
// makes for a role.
func shortElection(t *testing.T, connect func(role string) *nats.Conn, tweaks ...func(*leader.ElectionConfig)) {
	t.Helper()
	tweaks = append(tweaks, ttl(long))
	a := join(t, connect(candidate), "a", tweaks...)
	a.leads()
	b := join(t, connect(candidate), "b", tweaks...)
	b.follows(a)
	a.resign()
	b.leads()
}

// A party has a certificate and its key in files, as programs are given them.
type party struct{ cert, key string }

// An authority signs certificates; file holds its own.
type authority struct {
	dir, file string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca := &authority{dir: t.TempDir()}
	ca.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.file = writePEM(t, filepath.Join(ca.dir, "ca.pem"), "CERTIFICATE", der)
	return ca
}

// issue makes a certificate for a name, for the loopback address.
func (ca *authority) issue(t *testing.T, name string) party {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(ca.dir, name)
	return party{writePEM(t, base+".pem", "CERTIFICATE", der), writePEM(t, base+"-key.pem", "EC PRIVATE KEY", secret)}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, file, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve makes a server demand TLS, and of clients a certificate of the
// authority.
func (ca *authority) serve(t *testing.T) natslab.Option {
	t.Helper()
	own := ca.issue(t, "server")
	return func(o *server.Options) {
		config, err := server.GenTLSConfig(&server.TLSConfigOpts{
			CertFile: own.cert, KeyFile: own.key, CaFile: ca.file, Verify: true, Timeout: natslab.Patience.Seconds(),
		})
		if err != nil {
			t.Error(err)
		}
		o.TLSConfig, o.TLS, o.TLSVerify, o.TLSTimeout = config, true, true, natslab.Patience.Seconds()
	}
}

func TestElectionOverMutualTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	srv := natslab.Start(t, ca.serve(t))
	me := ca.issue(t, "candidate")
	makeBucket(t, srv.Connect(t, nats.RootCAs(ca.file), nats.ClientCert(me.cert, me.key)), republishing)
	shortElection(t, func(string) *nats.Conn {
		nc := srv.Connect(t, nats.RootCAs(ca.file), nats.ClientCert(me.cert, me.key))
		if state, err := nc.TLSConnectionState(); err != nil || len(state.VerifiedChains) == 0 {
			t.Errorf("the connection is not protected: %v", err)
		}
		return nc
	})
}

func TestStrangersDoNotConnectOverTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	address := natslab.Start(t, ca.serve(t)).URL()
	me, other := ca.issue(t, "candidate"), stranger.issue(t, "candidate")
	for name, opts := range map[string][]nats.Option{
		"a client without a certificate":     {nats.RootCAs(ca.file)},
		"a client of another authority":      {nats.RootCAs(ca.file), nats.ClientCert(other.cert, other.key)},
		"a server of an unknown authority":   {nats.RootCAs(stranger.file), nats.ClientCert(me.cert, me.key)},
		"a client that would talk in clear":  {},
		"a client that trusts system's only": {nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12})},
	} {
		nc, err := nats.Connect(address, append(opts, nats.Timeout(natslab.Patience))...)
		if err == nil {
			nc.Close()
			t.Errorf("%s connected", name)
		}
	}
}

func TestElectionWithNKeys(t *testing.T) {
	t.Parallel()
	seeds := t.TempDir()
	var users []*server.NkeyUser
	for _, role := range []string{candidate, admin} {
		_, seed, public := newUser(t)
		if err := os.WriteFile(filepath.Join(seeds, role), seed, 0o600); err != nil {
			t.Fatal(err)
		}
		users = append(users, &server.NkeyUser{Nkey: public, Permissions: user(role, rights(t, role, republishing)).Permissions})
	}
	srv := natslab.Start(t, func(o *server.Options) { o.Nkeys = users })
	connect := func(role string) *nats.Conn {
		key, err := nats.NkeyOptionFromSeed(filepath.Join(seeds, role))
		if err != nil {
			t.Fatal(err)
		}
		return srv.Connect(t, key, nats.CustomInboxPrefix("_INBOX_"+role))
	}
	makeBucket(t, connect(admin), republishing)
	shortElection(t, connect)
}

func newUser(t *testing.T) (pair nkeys.KeyPair, seed []byte, public string) {
	t.Helper()
	return newPair(t, nkeys.CreateUser)
}

func newPair(t *testing.T, create func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, seed []byte, public string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if seed, err = pair.Seed(); err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return pair, seed, public
}

// An issuer is an account of a server in operator mode, which admits the users
// that the account signed.
type issuer struct {
	t        *testing.T
	srv      *natslab.Server
	operator nkeys.KeyPair
	account  nkeys.KeyPair
	claims   *jwt.AccountClaims
	resolver *server.MemAccResolver
	dir      string
	users    map[string]string // public keys by name
}

func newIssuer(t *testing.T, opts ...natslab.Option) *issuer {
	t.Helper()
	i := &issuer{t: t, resolver: &server.MemAccResolver{}, dir: t.TempDir(), users: map[string]string{}}
	var public, operatorKey, systemKey string
	i.operator, _, operatorKey = newPair(t, nkeys.CreateOperator)
	_, _, systemKey = newPair(t, nkeys.CreateAccount)
	i.account, _, public = newPair(t, nkeys.CreateAccount)
	operatorClaims := jwt.NewOperatorClaims(operatorKey)
	operatorClaims.SystemAccount = systemKey
	i.claims = jwt.NewAccountClaims(public)
	i.claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	i.publish(jwt.NewAccountClaims(systemKey))
	i.publish(i.claims)
	i.srv = natslab.Start(t, append(opts, func(o *server.Options) {
		o.TrustedOperators, o.SystemAccount, o.AccountResolver = []*jwt.OperatorClaims{operatorClaims}, systemKey, i.resolver
	})...)
	return i
}

// publish signs an account's claims and puts them where the server finds them.
func (i *issuer) publish(claims *jwt.AccountClaims) {
	i.t.Helper()
	signed, err := claims.Encode(i.operator)
	if err == nil {
		err = i.resolver.Store(claims.Subject, signed)
	}
	if err != nil {
		i.t.Fatal(err)
	}
}

func (i *issuer) file(name string) string { return filepath.Join(i.dir, name+".creds") }

// credentials makes a user with a role's rights, and writes its file over an
// earlier one.
func (i *issuer) credentials(name, role string) {
	i.t.Helper()
	_, seed, public := newUser(i.t)
	claims := jwt.NewUserClaims(public)
	claims.Name = name
	for _, r := range rights(i.t, role, republishing) {
		if r.publish {
			claims.Pub.Allow.Add(r.subject)
		} else {
			claims.Sub.Allow.Add(r.subject)
		}
	}
	signed, err := claims.Encode(i.account)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(signed, seed)
	if err == nil {
		err = os.WriteFile(i.file(name), text, 0o600)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	i.users[name] = public
}

// revoke makes the credentials worthless, and has the server act on it.
func (i *issuer) revoke(name string) {
	i.t.Helper()
	i.claims.RevokeAt(i.users[name], time.Now().Add(time.Second))
	i.publish(i.claims)
	account, err := i.srv.Inner().LookupAccount(i.claims.Subject)
	if err != nil {
		i.t.Fatal(err)
	}
	i.srv.Inner().UpdateAccountClaims(account, i.claims)
}

// connect connects with credentials as docs/operate/security.md describes.
func (i *issuer) connect(name, role string) *nats.Conn {
	i.t.Helper()
	return i.srv.Connect(i.t, nats.UserCredentials(i.file(name)), nats.CustomInboxPrefix("_INBOX_"+role), nats.IgnoreAuthErrorAbort())
}

func TestElectionWithCredentials(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.credentials(admin, admin)
	i.credentials(candidate, candidate)
	makeBucket(t, i.connect(admin, admin), republishing)
	shortElection(t, func(role string) *nats.Conn { return i.connect(role, role) })
}

// A leader whose credentials are revoked stops in time and is succeeded. With
// new credentials in the same file it becomes a candidate again, on the same
// connection.
func TestCandidateCampaignsAgainWhenItsCredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.credentials(admin, admin)
	i.credentials("a", candidate)
	i.credentials("b", candidate)
	makeBucket(t, i.connect(admin, admin), republishing)
	nc := i.connect("a", candidate)
	a := join(t, nc, "a")
	a.leads()
	b := join(t, i.connect("b", candidate), "b", ttl(long)) // b's own lease is not to run out
	b.hears()
	a.succeeds(b) // if the machine stalled for a's lease
	i.revoke("a")
	b.leads()
	a.await("a is disconnected", func() bool { return a.Status().ConnectionStatus == "DISCONNECTED" })
	refusedAgain(t, nc)
	i.credentials("a", candidate)
	a.follows(b)
	b.resign()
	a.leads()
}

// refusedAgain waits until the server refused the connection more often than
// nats.go bears by default.
func refusedAgain(t *testing.T, nc *nats.Conn) {
	t.Helper()
	refusals := make(chan struct{}, 100)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAuthorization) {
			refusals <- struct{}{}
		}
	})
	limit := natslab.Within(t)
	for range 4 {
		select {
		case <-refusals:
		case <-limit.Done():
			t.Fatalf("the connection was not refused: %v, %v", nc.Status(), nc.LastError())
		}
	}
}

// Without IgnoreAuthErrorAbort nats.go permanently closes the connection at the
// second refusal.
func TestHoleConnectionThatIsRefusedTwiceIsClosedByDefault(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.credentials(admin, admin)
	i.credentials("a", candidate)
	makeBucket(t, i.connect(admin, admin), republishing)
	a := join(t, i.srv.Connect(t, nats.UserCredentials(i.file("a")), nats.CustomInboxPrefix("_INBOX_"+candidate)), "a")
	a.leads()
	i.revoke("a")
	a.await("a's connection is closed", func() bool { return a.Status().ConnectionStatus == "CLOSED" && !a.IsLeader() })
}

// inDomain maps a right to what a user needs who reaches the bucket through a
// leaf node.
func inDomain(all []right, domain string) []right {
	var mapped []right
	for _, r := range all {
		switch {
		case strings.HasPrefix(r.subject, "$JS.API."):
			r.subject = "$JS." + domain + ".API." + strings.TrimPrefix(r.subject, "$JS.API.")
		case strings.HasPrefix(r.subject, "$KV."):
			r.subject = "$JS." + domain + ".API." + r.subject
		}
		mapped = append(mapped, r)
	}
	return mapped
}

func TestElectionThroughALeafNodeInTheHubsDomain(t *testing.T) {
	t.Parallel()
	root := natslab.Admin()
	hub := natslab.Start(t, natslab.Users(root), natslab.Domain("hub"), func(o *server.Options) {
		o.LeafNode = server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT}
	})
	vars, err := hub.Inner().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	remote := &url.URL{Scheme: "nats-leaf", User: url.UserPassword("admin", "admin"), Host: net.JoinHostPort("127.0.0.1", big.NewInt(int64(vars.LeafNode.Port)).String())}
	l := &lab{tb: t}
	cand := user(candidate, inDomain(rights(t, candidate, republishing), "hub"))
	leaf := natslab.Start(t, natslab.Users(natslab.Admin(), cand), natslab.Domain("leaf"), func(o *server.Options) {
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}
	})
	l.url = leaf.URL()
	makeBucket(t, hub.Connect(t, nats.UserInfo("admin", "admin")), republishing)
	natslab.Eventually(t, "the leaf connected", func(context.Context) error {
		if hub.Inner().NumLeafNodes() == 0 {
			return errors.New("no leaf node")
		}
		return nil
	})
	inHub := func(c *leader.ElectionConfig) { c.JetStreamDomain = "hub" }
	shortElection(t, func(role string) *nats.Conn { return l.connect(role) }, inHub)
	if got := l.complaints(); len(got) > 0 {
		t.Errorf("the server complained: %v", got)
	}
	if _, err := openStore(t, hub.Connect(t, nats.UserInfo("admin", "admin")), natsstore.Options{}).Get(natslab.Within(t), group); err != nil {
		t.Errorf("the hub's record: %v", err)
	}
}
