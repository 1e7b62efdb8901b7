package proof_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/seed-ff2cb582/leader/proof"
)

// openssl genpkey -algorithm ed25519
const opensslKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
` // RFC 8037, appendix A.1, in PKCS #8

// RFC 8037, appendix A.2 and A.3.
const (
	rfcX          = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	rfcThumbprint = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
)

func TestKeyOfTheRFCHasItsThumbprint(t *testing.T) {
	k, err := proof.ParseKey([]byte("\n" + opensslKey + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if x := base64.RawURLEncoding.EncodeToString(k.Public()); x != rfcX || k.ID() != rfcThumbprint {
		t.Errorf("x %s, id %s", x, k.ID())
	}
	again, err := k.MarshalPEM()
	if err != nil || string(again) != opensslKey {
		t.Errorf("written as %s: %v", again, err)
	}
}

func seed(t *testing.T, kind nkeys.PrefixByte) string {
	t.Helper()
	s, err := nkeys.EncodeSeed(kind, []byte(strings.Repeat("s", ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return string(s)
}

func TestSeedOfAnNKeyIsAKey(t *testing.T) {
	text := seed(t, nkeys.PrefixByteAccount)
	k, err := proof.ParseKey([]byte(text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := nkeys.Decode(nkeys.PrefixByteAccount, []byte(public))
	if err != nil || !k.Public().Equal(ed25519.PublicKey(raw)) {
		t.Errorf("another public key than nkeys returns: %v", err)
	}
}

func TestMalformedKeyIsRefused(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	account := seed(t, nkeys.PrefixByteAccount)
	for name, text := range map[string]string{
		"nothing":                 "",
		"a word":                  "secret",
		"the seed of a NATS user": seed(t, nkeys.PrefixByteUser),
		"the seed of a curve key": seed(t, nkeys.PrefixByteCurve),
		"a seed that is cut":      account[:len(account)-1],
		"a seed with an error":    account[:10] + "AAAA" + account[14:],
		"a key of another kind":   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"an encrypted key":        strings.ReplaceAll(opensslKey, "PRIVATE", "ENCRYPTED PRIVATE"),
		"a public key":            strings.ReplaceAll(opensslKey, "PRIVATE", "PUBLIC"),
		"PEM that is cut":         opensslKey[:60],
		"PEM of nothing":          "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
	} {
		k, err := proof.ParseKey([]byte(text))
		if !errors.Is(err, proof.ErrKey) || k.ID() != "" {
			t.Errorf("%s: %v, %v", name, k, err)
		}
		if lines := strings.Fields(text); len(lines) > 0 && len(text) > 20 && strings.Contains(fmt.Sprint(err), lines[len(lines)-1]) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
	for name, signer := range map[string]crypto.Signer{"none": nil, "ECDSA": ec, "of no length": remote{},
		"a private key of no length": ed25519.PrivateKey{}, "a seed": make(ed25519.PrivateKey, ed25519.SeedSize),
		"a private key that is cut": make(ed25519.PrivateKey, ed25519.SeedSize-1), "a private key that is nil": ed25519.PrivateKey(nil),
	} {
		if _, err := proof.NewKey(signer); !errors.Is(err, proof.ErrKey) {
			t.Errorf("a signer that is %s: %v", name, err)
		}
	}
}

// remote is a key that is kept elsewhere.
type remote struct {
	crypto.Signer
	broken error
}

func (r remote) Public() crypto.PublicKey {
	if r.Signer == nil {
		return ed25519.PublicKey{}
	}
	return r.Signer.Public()
}

func (r remote) Sign(rnd io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if r.broken != nil {
		return nil, r.broken
	}
	return r.Signer.Sign(rnd, message, opts)
}

func TestAnySignerOfEd25519Signs(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	k, err := proof.NewKey(remote{Signer: l.private})
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.Sign(statement(7))
	if err != nil {
		t.Fatal(err)
	}
	l.accepted(t, text)
	if _, err := k.MarshalPEM(); !errors.Is(err, proof.ErrKey) {
		t.Errorf("it gives away its key: %v", err)
	}
	broken := errors.New("the module is locked")
	k, err = proof.NewKey(remote{Signer: l.private, broken: broken})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := k.Sign(statement(7)); !errors.Is(err, broken) || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := (proof.Key{}).Sign(statement(7)); !errors.Is(err, proof.ErrKey) {
		t.Errorf("the zero key: %v", err)
	}
}

func TestNoVerbOfFmtShowsTheKey(t *testing.T) {
	k, err := proof.ParseKey([]byte(opensslKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		text := fmt.Sprintf(verb, []any{k, &k})
		if strings.Contains(text, "9d61b19d") || strings.Contains(text, "157 97 177") || strings.Contains(text, "0x9d") {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

func TestKeySetIsAJWKSetAndBack(t *testing.T) {
	l, other := newLab(t, proof.VerifierOptions{}), newLab(t, proof.VerifierOptions{})
	set := setOf(t, l.key.Public(), other.key.Public())
	text := asJSON(t, set)
	var doc struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": l.key.ID(), "x": base64.RawURLEncoding.EncodeToString(l.key.Public()),
	}
	if len(doc.Keys) != 2 || asJSON(t, doc.Keys[0]) != asJSON(t, want) {
		t.Errorf("%s", text)
	}
	file := filepath.Join(t.TempDir(), "reports.jwks")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := proof.ReadKeySet(file)
	if err != nil || fmt.Sprint(read.IDs()) != fmt.Sprint([]string{l.key.ID(), other.key.ID()}) {
		t.Fatalf("%v, %v", read.IDs(), err)
	}
	if err := l.SetKeys(read); err != nil {
		t.Fatal(err)
	}
	l.accepted(t, l.sign(statement(7)))
}

func TestKeySetsOfOthersAreRead(t *testing.T) {
	key := func(members string) string { return `{"keys":[{` + members + `}]}` }
	x := `"x":"` + rfcX + `"`
	good := `"kty":"OKP","crv":"Ed25519",` + x
	for text, want := range map[string]string{
		key(good + `,"kid":"2026-11"`):                                             "[2026-11]",
		key(good + `,"kid":"a","alg":"Ed25519"`):                                   "[a]", // RFC 9864
		`{"keys":[{"kty":"RSA","n":"AQAB"},{` + good + `,"kid":"a"}]}`:             "[a]",
		`{"keys":[{` + good + `,"kid":"a","use":"enc"},{` + good + `,"kid":"b"}]}`: "[b]",
	} {
		if s, err := proof.ParseKeySet([]byte(text)); err != nil || fmt.Sprint(s.IDs()) != want {
			t.Errorf("%s: %v, %v", text, s.IDs(), err)
		}
	}
	for name, text := range map[string]string{
		"nothing":                 "",
		"no keys":                 "{}",
		"an empty set":            `{"keys":[]}`,
		"a private key":           key(good + `,"kid":"a","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"`),
		"no id":                   key(good),
		"an id that is too long":  key(good + `,"kid":"` + strings.Repeat("k", 200) + `"`),
		"two keys of an id":       `{"keys":[{` + good + `,"kid":"a"},{` + good + `,"kid":"a"}]}`,
		"a short key":             key(`"kty":"OKP","crv":"Ed25519","kid":"a","x":"AQAB"`),
		"a key that is no base64": key(`"kty":"OKP","crv":"Ed25519","kid":"a","x":"!"`),
		"a symmetric key":         key(`"kty":"oct","k":"AQAB","kid":"a"`),
		"another curve":           key(`"kty":"OKP","crv":"X25519","kid":"a",` + x),
		"another algorithm":       key(good + `,"kid":"a","alg":"HS256"`),
	} {
		if s, err := proof.ParseKeySet([]byte(text)); !errors.Is(err, proof.ErrKey) || len(s.IDs()) != 0 {
			t.Errorf("%s: %v, %v", name, s.IDs(), err)
		}
	}
	if _, err := proof.NewKeySet(ed25519.PublicKey("short")); !errors.Is(err, proof.ErrKey) {
		t.Errorf("%v", err)
	}
}

func TestFilesOfKeysAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.pem")
	if _, err := proof.ReadKey(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte(opensslKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, err := proof.ReadKey(file); err != nil || k.ID() != rfcThumbprint {
		t.Errorf("%v, %v", k, err)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat(" ", proof.MaxKeyFile)+opensslKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := proof.ReadKey(file); !errors.Is(err, proof.ErrKey) {
		t.Errorf("a large file: %v", err)
	}
	if _, err := proof.ReadKeySet(file); !errors.Is(err, proof.ErrKey) {
		t.Errorf("a large file: %v", err)
	}
}

func TestSetsAreValues(t *testing.T) {
	l, other := newLab(t, proof.VerifierOptions{}), newLab(t, proof.VerifierOptions{})
	set := setOf(t, l.key.Public())
	both, err := set.With(other.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	same, err := both.With(l.key.Public())
	if err != nil || len(same.IDs()) != 2 || len(set.IDs()) != 1 || len(both.Without(l.key.ID()).IDs()) != 1 || len(both.IDs()) != 2 {
		t.Errorf("%v, %v, %v: %v", set.IDs(), both.IDs(), same.IDs(), err)
	}
	public := append(ed25519.PublicKey(nil), l.key.Public()...)
	set = setOf(t, public)
	clear(public)
	if err := l.SetKeys(set); err != nil {
		t.Fatal(err)
	}
	l.accepted(t, l.sign(statement(7)))
}
