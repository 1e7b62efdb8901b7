package proof_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
)

// A lab is a group with a key, and a verifier that has its key set.
type lab struct {
	*proof.Verifier

	tb      testing.TB
	private ed25519.PrivateKey
	key     proof.Key
}

func newLab(tb testing.TB, opts proof.VerifierOptions) *lab {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	l := &lab{tb: tb, private: private}
	if l.key, err = proof.NewKey(private); err != nil {
		tb.Fatal(err)
	}
	l.Verifier, err = proof.NewVerifier("reports", setOf(tb, public), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func setOf(tb testing.TB, keys ...ed25519.PublicKey) proof.KeySet {
	tb.Helper()
	s, err := proof.NewKeySet(keys...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// statement is of a leader in a term, good for ten seconds.
func statement(term uint64) proof.Statement {
	now := time.Now().Round(0).Truncate(time.Millisecond)
	return proof.Statement{
		Group: "reports", Leader: "host-1", Term: term, Digest: fence.Digest("token"), Issued: now, Until: now.Add(10 * time.Second),
	}
}

// sign has the lab's key sign a statement.
func (l *lab) sign(s proof.Statement) string {
	l.tb.Helper()
	text, err := l.key.Sign(s)
	if err != nil {
		l.tb.Fatal(err)
	}
	return text
}

// forge has the lab's key sign a header and a payload as they are.
func (l *lab) forge(header, payload string) string {
	return seal(header, payload, func(input string) []byte { return ed25519.Sign(l.private, []byte(input)) })
}

func seal(header, payload string, sign func(string) []byte) string {
	input := b64(header) + "." + b64(payload)
	return input + "." + b64(string(sign(input)))
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// parts returns the header and the payload of a proof.
func (l *lab) parts(text string) (header, payload string) {
	l.tb.Helper()
	var decoded []string
	for _, part := range strings.Split(text, ".")[:2] {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			l.tb.Fatal(err)
		}
		decoded = append(decoded, string(b))
	}
	return decoded[0], decoded[1]
}

// refused demands that a proof is refused with an error, by each method, and
// that nothing of it is believed or remembered.
func (l *lab) refused(t *testing.T, text string, want error) {
	t.Helper()
	before := l.Last()
	s, err := l.Verify(text)
	if errors.Is(want, fence.ErrStale) {
		err = want // it is good by itself
	} else if s != (proof.Statement{}) {
		t.Errorf("refused, and it states %v", s)
	}
	accepted, acceptErr := l.Accept(t.Context(), text)
	work, leave, enterErr := l.Enter(t.Context(), text)
	leave()
	if !errors.Is(err, want) || !errors.Is(acceptErr, want) || !errors.Is(enterErr, want) {
		t.Errorf("want %v: Verify %v, Accept %v, Enter %v", want, err, acceptErr, enterErr)
	}
	if _, ok := proof.FromContext(work); ok || accepted != (proof.Statement{}) || l.Last() != before {
		t.Errorf("refused, and accepted: %v, remembered %v", accepted, l.Last())
	}
	if len(text) > 40 && strings.Contains(fmt.Sprint(enterErr, acceptErr), text[len(text)-40:]) {
		t.Errorf("the error shows the proof: %v", acceptErr)
	}
}

// accepted demands that a proof is accepted.
func (l *lab) accepted(t *testing.T, text string) proof.Statement {
	t.Helper()
	s, err := l.Accept(t.Context(), text)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return s
}

func asJSON(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
