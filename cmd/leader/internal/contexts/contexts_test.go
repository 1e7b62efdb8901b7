package contexts

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
)

// patience bounds what should take no time.
const patience = time.Minute

// parse reads flags and variables as the commands do. The contexts are found by
// a variable of the process, so that no test of this package is parallel.
func parse(t *testing.T, vars map[string]string, args ...string) (natsconn.Flags, error) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", cmp.Or(vars["XDG_CONFIG_HOME"], t.TempDir()))
	env := environ.Env(func(name string) (string, bool) {
		value, set := vars[name]
		return value, set
	})
	var cli struct{ natsconn.Flags }
	parser, err := kong.New(&cli, kong.Exit(func(int) {}), env)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return cli.Flags, err
}

// try connects, and returns how that went.
func try(t *testing.T, env map[string]string, args ...string) (*nats.Conn, error) {
	t.Helper()
	flags, err := parse(t, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Settings(flags)
	if err != nil {
		return nil, err
	}
	nc, err := s.Connect("leader test", nats.Timeout(patience))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func start(t *testing.T, opts *server.Options) string {
	t.Helper()
	opts.Host, opts.Port, opts.NoLog, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	opts.AuthTimeout = patience.Seconds() // by default 2 s, which a machine that stalls exceeds
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the server does not accept connections")
	}
	return srv.ClientURL()
}

// each tries the flags, the variables and a context, with the same meaning.
// settings go by the name of the flag.
func each(t *testing.T, url string, settings map[string]string) {
	t.Helper()
	variables := map[string]string{
		"user": "NATS_USER", "password": "NATS_PASSWORD", "token": "NATS_TOKEN", "creds": "NATS_CREDS", "nkey": "NATS_NKEY",
		"tlscert": "NATS_CERT", "tlskey": "NATS_KEY", "tlsca": "NATS_CA", "tlsfirst": "NATS_TLS_FIRST",
	}
	inContext := map[string]string{"tlscert": "cert", "tlskey": "key", "tlsca": "ca", "tlsfirst": "tls_first"}
	args, env, written := []string{"--server=" + url}, map[string]string{"NATS_URL": url}, map[string]any{"url": url}
	for name, value := range settings {
		args, env[variables[name]] = append(args, "--"+name+"="+value), value
		key, differs := inContext[name]
		if !differs {
			key = name
		}
		written[key] = value
		if name == "tlsfirst" {
			written[key] = true
		}
	}
	home := contextHome(t, "there", written)
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
	}{
		"flags":            {nil, args},
		"variables":        {env, nil},
		"context":          {map[string]string{"XDG_CONFIG_HOME": home}, []string{"--context=there"}},
		"NATS_CONTEXT":     {map[string]string{"XDG_CONFIG_HOME": home, "NATS_CONTEXT": "there"}, nil},
		"selected context": {map[string]string{"XDG_CONFIG_HOME": selecting(t, home, "there")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := try(t, c.env, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if nc.Opts.Name != "leader test" {
				t.Errorf("the connection is called %q", nc.Opts.Name)
			}
		})
	}
}

// contextHome returns a directory with a context as nats context add writes it.
func contextHome(t *testing.T, name string, settings map[string]any) string {
	t.Helper()
	home := t.TempDir()
	data, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "nats", "context", name+".json"), data)
	return home
}

// selecting returns a copy of the directory in which nats context select was
// called.
func selecting(t *testing.T, home, name string) string {
	t.Helper()
	selected := t.TempDir()
	if err := os.CopyFS(selected, os.DirFS(home)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(selected, "nats", "context.txt"), []byte(name))
	return selected
}

func write(t *testing.T, file string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestUserAndPassword(t *testing.T) {
	url := start(t, &server.Options{Username: "u", Password: "p"})
	each(t, url, map[string]string{"user": "u", "password": "p"})
	if _, err := try(t, nil, "--server", url, "--user", "u", "--password", "wrong"); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestToken(t *testing.T) {
	each(t, start(t, &server.Options{Authorization: "secret"}), map[string]string{"token": "secret"})
}

func TestNKey(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := user.PublicKey()
	seed, _ := user.Seed()
	url := start(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	each(t, url, map[string]string{"nkey": write(t, filepath.Join(t.TempDir(), "user.nk"), seed)})
}

func TestCredentials(t *testing.T) {
	operator, _ := nkeys.CreateOperator()
	operatorKey, _ := operator.PublicKey()
	account, _ := nkeys.CreateAccount()
	accountKey, _ := account.PublicKey()
	user, _ := nkeys.CreateUser()
	userKey, _ := user.PublicKey()
	accountJWT, err := jwt.NewAccountClaims(accountKey).Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	userJWT, err := jwt.NewUserClaims(userKey).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := user.Seed()
	creds, err := jwt.FormatUserConfig(userJWT, seed)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountKey, accountJWT); err != nil {
		t.Fatal(err)
	}
	url := start(t, &server.Options{TrustedKeys: []string{operatorKey}, AccountResolver: resolver})
	each(t, url, map[string]string{"creds": write(t, filepath.Join(t.TempDir(), "user.creds"), creds)})
}

func TestTLSWithCertificatesOfBothSides(t *testing.T) {
	cert, key, ca, config := certificates(t)
	for _, first := range []string{"false", "true"} {
		url := start(t, &server.Options{TLS: true, TLSConfig: config, TLSVerify: true, TLSHandshakeFirst: first == "true", TLSTimeout: patience.Seconds()})
		settings := map[string]string{"tlscert": cert, "tlskey": key, "tlsca": ca}
		if first == "true" {
			settings["tlsfirst"] = first
		}
		t.Run("first="+first, func(t *testing.T) { each(t, url, settings) })
	}
	url := start(t, &server.Options{TLS: true, TLSConfig: config, TLSTimeout: patience.Seconds()})
	if _, err := try(t, nil, "--server", url); err == nil {
		t.Error("an unknown authority is trusted")
	}
}

// certificates returns the files of a client, and the configuration of a
// server; both are signed by one authority.
func certificates(t *testing.T) (cert, key, ca string, config *tls.Config) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	dir := t.TempDir()
	return write(t, filepath.Join(dir, "cert.pem"), certPEM), write(t, filepath.Join(dir, "key.pem"), keyPEM),
		write(t, filepath.Join(dir, "ca.pem"), certPEM),
		&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func TestFlagsGoBeforeVariablesAndContexts(t *testing.T) {
	url := start(t, &server.Options{Username: "u", Password: "p"})
	home := contextHome(t, "there", map[string]any{"url": "nats://127.0.0.1:1", "user": "u", "password": "old", "jetstream_domain": "hub"})
	env := map[string]string{"XDG_CONFIG_HOME": home, "NATS_URL": "nats://127.0.0.1:2"}
	nc, err := try(t, env, "--context=there", "--server="+url, "--password=p")
	if err != nil {
		t.Fatal(err)
	}
	if got := nc.ConnectedUrl(); !strings.Contains(got, strings.TrimPrefix(url, "nats://")) {
		t.Errorf("connected to %s, want %s", got, url)
	}
}

func TestDomainAndInboxPrefix(t *testing.T) {
	home := contextHome(t, "there", map[string]any{"url": "nats://x", "jetstream_domain": "hub", "inbox_prefix": "_mine"})
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"flags":     {nil, []string{"--server=nats://x", "--js-domain=hub", "--inbox-prefix=_mine"}, "hub"},
		"variables": {map[string]string{"NATS_URL": "nats://x", "NATS_JS_DOMAIN": "hub", "NATS_INBOX_PREFIX": "_mine"}, nil, "hub"},
		"context":   {map[string]string{"XDG_CONFIG_HOME": home}, []string{"--context=there"}, "hub"},
		"both":      {map[string]string{"XDG_CONFIG_HOME": home}, []string{"--context=there", "--js-domain=leaf"}, "leaf"},
	} {
		flags, err := parse(t, c.env, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Settings(flags)
		if err != nil {
			t.Fatal(err)
		}
		opts := nats.GetDefaultOptions()
		for _, o := range s.Options {
			if err := o(&opts); err != nil {
				t.Fatal(err)
			}
		}
		if s.Domain != c.want || opts.InboxPrefix != "_mine" {
			t.Errorf("%s: domain %q, inbox prefix %q", name, s.Domain, opts.InboxPrefix)
		}
	}
}

func TestAContextsPrefixIsTheAPIAndExcludesADomain(t *testing.T) {
	home := contextHome(t, "there", map[string]any{"url": "nats://x", "jetstream_api_prefix": "LEADERS.API."})
	for domain, want := range map[string]error{"": nil, "hub": natsconn.ErrContext} {
		flags, err := parse(t, map[string]string{"XDG_CONFIG_HOME": home}, "--context=there", "--js-domain="+domain)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Settings(flags)
		if !errors.Is(err, want) || err == nil && s.APIPrefix != "LEADERS.API" || err != nil && !strings.Contains(err.Error(), "only one of them") {
			t.Errorf("domain %q: %+v, %v", domain, s, err)
		}
	}
}

func TestAContextsFieldWithoutAnEffectIsRefused(t *testing.T) {
	home := contextHome(t, "there", map[string]any{"url": "nats://x", "jetstream_event_prefix": "LEADERS.EVENT"})
	if _, err := try(t, map[string]string{"XDG_CONFIG_HOME": home}, "--context=there"); !errors.Is(err, natsconn.ErrContext) || !strings.Contains(err.Error(), `jetstream_event_prefix "LEADERS.EVENT"`) {
		t.Error(err)
	}
}

func TestMissingFilesAndContextsAreNamed(t *testing.T) {
	if _, err := parse(t, nil, "--creds=/no/such.creds"); err == nil || !strings.Contains(err.Error(), "/no/such.creds") {
		t.Errorf("a missing file: %v", err)
	}
	home := contextHome(t, "there", map[string]any{"url": "nats://x"})
	if _, err := try(t, map[string]string{"XDG_CONFIG_HOME": home}, "--context=here"); !errors.Is(err, natsconn.ErrContext) || !strings.Contains(err.Error(), "known: there") {
		t.Errorf("a missing context: %v", err)
	}
}

func TestServersOfAListAreShown(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://a:1,nats://b:2":           "nats://a:1,nats://b:2",
		"nats://a:1, b:2":                 "nats://a:1,b:2",
		"nats://u:p@a:1,b:2,tls://u:p@c,": "nats://***@a:1,b:2,tls://***@c,",
		"nats://u:p@a:1,u:p@b:2":          "nats://***@b:2", // a could be part of a password
		"a,b":                             "a,b",
	} {
		if got := natsconn.Redacted(urls); got != want {
			t.Errorf("%s: %s, want %s", urls, got, want)
		}
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	for _, urls := range []string{
		"nats://u:secret@127.0.0.1:1,nats://u:secret@127.0.0.1:2",
		"u:secret@127.0.0.1:2", "secret@127.0.0.1:2", // to which nats adds the scheme
		"nats://u:%secret@127.0.0.1:2", "nats://u:sec/secret@127.0.0.1:2", "nats://u:s@secret@127.0.0.1:2", // which are no URLs
		// A list to nats, which cuts at commas.
		"nats://u:secret,4@127.0.0.1:2", "u:secret,s@127.0.0.1:2", "nats://127.0.0.1:1,nats://u:s,e,secret,@127.0.0.1:2",
		"nats://u:secret,x://4@127.0.0.1:2", "u:secret,://@127.0.0.1:2", "nats://u:secret,x://,4@127.0.0.1:2", "secret://@127.0.0.1:2",
	} {
		_, err := try(t, nil, "--server="+urls)
		if err == nil || strings.Contains(err.Error(), "sec") || !strings.Contains(err.Error(), "127.0.0.1:2") {
			t.Errorf("%s: %v", urls, err)
		}
	}
}
