package proof

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// ErrKey means that the value is not a key that proofs are signed or verified with, an
// Ed25519 key.
var ErrKey = errors.New("proof: unusable key")

// MaxKeyFile is the size in bytes of the largest file of a key or of a key set
// that is read.
const MaxKeyFile = 64 << 10

// A Key signs the proofs of a group. It is made by [NewKey], [ParseKey] and
// others; the zero Key signs nothing. It is a value, and may be used
// concurrently if its signer may, as those that this package makes.
//
// All candidates of a group may share one key, or each has its own, all of
// which are in the group's key set. A key is for one group: another group's key
// would be valid for this one, too.
type Key struct {
	signer crypto.Signer
	public ed25519.PublicKey
	id     string
}

// NewKey returns the key behind a signer, which may be a key in memory
// (ed25519.PrivateKey), in a hardware module or in a service. Its public key
// must be an ed25519.PublicKey. Errors match ErrKey.
func NewKey(signer crypto.Signer) (Key, error) {
	if signer == nil {
		return Key{}, fmt.Errorf("%w: there is none", ErrKey)
	}
	if private, ok := signer.(ed25519.PrivateKey); ok && len(private) != ed25519.PrivateKeySize {
		// Its Public would panic. Often it is a seed.
		return Key{}, fmt.Errorf("%w: an ed25519.PrivateKey of %d bytes, and not %d", ErrKey, len(private), ed25519.PrivateKeySize)
	}
	public, ok := signer.Public().(ed25519.PublicKey)
	if !ok || len(public) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("%w: it is a %T, and must be an ed25519.PublicKey", ErrKey, signer.Public())
	}
	return Key{signer: signer, public: public, id: KeyID(public)}, nil
}

// GenerateKey returns a new key.
func GenerateKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, err
	}
	return NewKey(private)
}

// ReadKey reads a key from a file that [ParseKey] takes.
func ReadKey(path string) (Key, error) {
	b, err := readFile(path)
	if err != nil {
		return Key{}, err
	}
	k, err := ParseKey(b)
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// ParseKey reads a private key: a PEM block PRIVATE KEY (PKCS #8, RFC 8410), as
// `openssl genpkey -algorithm ed25519` writes it, or the seed of an nkey of any
// kind but user. Errors match ErrKey, and show nothing of the key.
//
// The seed of a NATS user is refused: a client signs with it whatever the
// server that it connects to has sent as its nonce, so a server could have it
// sign a proof.
func ParseKey(b []byte) (Key, error) {
	text := strings.TrimSpace(string(b))
	if !strings.HasPrefix(text, "-----BEGIN ") {
		return parseSeed(text)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != pemType {
		return Key{}, fmt.Errorf("%w: want a PEM block %s (PKCS #8, not encrypted), or the seed of an nkey", ErrKey, pemType)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("%w: the PEM block is no PKCS #8", ErrKey)
	}
	signer, ok := private.(ed25519.PrivateKey)
	if !ok {
		return Key{}, fmt.Errorf("%w: it is a %T, and must be an ed25519.PrivateKey", ErrKey, private)
	}
	return NewKey(signer)
}

const pemType = "PRIVATE KEY"

func parseSeed(text string) (Key, error) {
	kind, seed, err := nkeys.DecodeSeed([]byte(text))
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("%w: want a PEM block %s, or the seed of an nkey", ErrKey, pemType)
	case kind == nkeys.PrefixByteUser:
		return Key{}, fmt.Errorf("%w: the seed of a NATS user signs whatever a server asks for; make another (nk -gen account)", ErrKey)
	case kind == nkeys.PrefixByteCurve || len(seed) != ed25519.SeedSize:
		return Key{}, fmt.Errorf("%w: a curve key signs nothing", ErrKey)
	}
	return NewKey(ed25519.NewKeyFromSeed(seed))
}

// MarshalPEM returns the private key as a PEM block PRIVATE KEY, which
// [ParseKey] reads. A key whose signer keeps it elsewhere is an error that
// matches ErrKey.
func (k Key) MarshalPEM() ([]byte, error) {
	private, ok := k.signer.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: its signer does not give it away", ErrKey)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// Public returns the public key, nil of the zero Key. Do not modify it.
func (k Key) Public() ed25519.PublicKey { return k.public }

// ID returns the key's id, see [KeyID]; empty for the zero Key.
func (k Key) ID() string { return k.id }

// String shows the id, and nothing of the private key.
func (k Key) String() string { return "proof.Key " + k.id }

// Format writes String for every verb: the verbs of numbers would show the
// private key.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// KeyID returns the name by which a proof refers to its key: the SHA-256
// thumbprint of the key as a JWK (RFC 7638, RFC 8037), 43 characters. Everybody
// derives the same.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(public) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, MaxKeyFile+1))
	if err == nil && len(b) > MaxKeyFile {
		err = fmt.Errorf("%s: %w: the file has more than %d bytes", path, ErrKey, MaxKeyFile)
	}
	return b, err
}
