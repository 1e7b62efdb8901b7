package proof_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// With nothing but RFCs 7515, 7519 and 8032, as a program in another language
// has them.
func TestProofIsAPlainJWT(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{Audience: "billing"})
	s := statement(fence.MaxTerm)
	s.Audience = "billing"
	text := l.sign(s)
	parts := strings.Split(text, ".")
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !ed25519.Verify(l.key.Public(), []byte(parts[0]+"."+parts[1]), sig) {
		t.Fatalf("the signature does not fit: %v", err)
	}
	header, payload := l.parts(text)
	if want := asJSON(t, map[string]string{"alg": "EdDSA", "kid": l.key.ID(), "typ": "leader-proof+jwt"}); header != want {
		t.Errorf("header %s, want %s", header, want)
	}
	var claims map[string]any
	if err := json.Unmarshal([]byte(payload), &claims); err != nil {
		t.Fatal(err)
	}
	seconds := func(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
	want := map[string]any{
		"iss": "reports", "sub": "host-1", "aud": "billing", "term": "9007199254740992", "digest": fence.Digest("token"),
		"iat": seconds(s.Issued), "exp": seconds(s.Until),
	}
	if asJSON(t, claims) != asJSON(t, want) {
		t.Errorf("claims %s\nwant %s", payload, asJSON(t, want))
	}
	s.Key = l.key.ID()
	if got := l.accepted(t, text); got != s {
		t.Errorf("read as %+v\nwant %+v", got, s)
	}
	t.Logf("%d bytes", len(text))
}

// Thousandths of a second are not binary fractions. In 2038 the seconds need
// one bit more, and their thousandfold none.
func TestTimesSurviveToTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, proof.VerifierOptions{})
		for _, start := range []int64{1 << 30, 1_800_000_000, 1<<31 + 1000} {
			time.Sleep(time.Until(time.Unix(start, 0)))
			for ms := range 1000 {
				s := statement(7)
				s.Until = s.Issued.Add(time.Second + time.Duration(ms)*time.Millisecond)
				got, err := l.Verify(l.sign(s))
				if err != nil || !got.Until.Equal(s.Until) || !got.Issued.Equal(s.Issued) {
					t.Fatalf("%v to %v became %v to %v: %v", s.Issued, s.Until, got.Issued, got.Until, err)
				}
			}
		}
	})
}

func TestUnencodableClaimIsNotSigned(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	for name, change := range map[string]func(*proof.Statement){
		"no group":       func(s *proof.Statement) { s.Group = "" },
		"a group":        func(s *proof.Statement) { s.Group = "a b" },
		"no leader":      func(s *proof.Statement) { s.Leader = "" },
		"a leader":       func(s *proof.Statement) { s.Leader = "\xff" },
		"no term":        func(s *proof.Statement) { s.Term = 0 },
		"no digest":      func(s *proof.Statement) { s.Digest = "" },
		"the token":      func(s *proof.Statement) { s.Digest = "token" },
		"an audience":    func(s *proof.Statement) { s.Audience = strings.Repeat("x", 257) },
		"too long":       func(s *proof.Statement) { s.Leader, s.Audience = strings.Repeat("<", 256), strings.Repeat("<", 256) },
		"no time":        func(s *proof.Statement) { s.Until = s.Issued },
		"less than 1 ms": func(s *proof.Statement) { s.Until = s.Issued.Add(time.Millisecond - 1) },
		"no beginning":   func(s *proof.Statement) { s.Issued = time.Time{} },
		"no end":         func(s *proof.Statement) { s.Until = time.Unix(math.MaxInt64/2, 0) },
	} {
		s := statement(7)
		change(&s)
		if text, err := l.key.Sign(s); !errors.Is(err, proof.ErrInvalid) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// However many show whatever proofs at once: what is let in never goes back,
// and the work of two terms never overlaps.
func TestTermsOfManyRequestsAtOnceOnlyGrow(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	const terms = 40
	var texts []string
	for n := range uint64(terms) {
		texts = append(texts, l.sign(statement(n+1)))
	}
	var mu sync.Mutex
	var inside, latest uint64
	working := 0
	var wg sync.WaitGroup
	for range 8 {
		rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
		wg.Go(func() {
			for i := range 200 {
				text := texts[min(terms-1, i*terms/200+rng.IntN(8))]
				work, leave, err := l.Enter(t.Context(), text)
				if err != nil {
					continue
				}
				s, ok := proof.FromContext(work)
				mu.Lock()
				if !ok || working > 0 && s.Term != inside || s.Term < latest {
					t.Errorf("term %d beside %d workers of %d, after %d", s.Term, working, inside, latest)
				}
				inside, latest, working = s.Term, max(latest, s.Term), working+1
				mu.Unlock()
				mu.Lock()
				working--
				mu.Unlock()
				leave()
			}
		})
	}
	wg.Wait()
	if l.Last().Term < terms/2 {
		t.Errorf("the last term was %d: nothing was shown", l.Last().Term)
	}
}

// The gate waits for older work, and time goes on meanwhile.
func TestProofThatExpiresAtTheGateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, proof.VerifierOptions{})
		old, next := l.sign(statement(7)), l.sign(statement(8))
		_, leave, err := l.Enter(t.Context(), old)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, leave)
		work, leaveNext, err := l.Enter(t.Context(), next)
		leaveNext()
		if _, ok := proof.FromContext(work); ok || !errors.Is(err, proof.ErrExpired) {
			t.Errorf("%v", err)
		}
		// It was seen nevertheless.
		l.refused(t, l.sign(statement(7)), fence.ErrStale)
		// And holds up nobody.
		begun := time.Now()
		later := statement(9)
		later.Issued, later.Until = begun, begun.Add(10*time.Second)
		_, leaveLater, err := l.Enter(t.Context(), l.sign(later))
		leaveLater()
		if err != nil || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// The memory can be kept across a restart, and shared with guards that are
// shown the token itself.
func TestMemoryIsTheGates(t *testing.T) {
	var kept fence.Mark
	gate := &fence.Gate{Persist: func(_ context.Context, m fence.Mark) error { kept = m; return nil }}
	l := newLab(t, proof.VerifierOptions{Gate: gate})
	token := leader.Term{Number: 8, Token: "token"} // whose digest statement has
	l.accepted(t, l.sign(statement(8)))
	if err := gate.Accept(t.Context(), token); err != nil {
		t.Errorf("the same term by its token: %v", err)
	}
	restarted, err := proof.NewVerifier("reports", setOf(t, l.key.Public()), proof.VerifierOptions{Gate: fence.NewGate(kept)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := restarted.Accept(t.Context(), l.sign(statement(7))); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older term after a restart: %v", err)
	}
	full := errors.New("the disk is full")
	gate.Persist = func(context.Context, fence.Mark) error { return full }
	if s, err := l.Accept(t.Context(), l.sign(statement(9))); !errors.Is(err, full) || s != (proof.Statement{}) {
		t.Errorf("a term that cannot be kept: %v, %v", s, err)
	}
}

func ExampleVerifier() {
	// The group's key, which its candidates have, and its public half.
	key, err := proof.GenerateKey()
	if err != nil {
		panic(err)
	}
	keys, err := proof.NewKeySet(key.Public())
	if err != nil {
		panic(err)
	}
	// The resource.
	verifier, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{})
	if err != nil {
		panic(err)
	}
	// Two leaders, one after the other. They use a Signer; here the terms are
	// made up.
	show := func(id string, term uint64) {
		now := time.Now()
		text, err := key.Sign(proof.Statement{
			Group: "reports", Leader: id, Term: term, Digest: fence.Digest("the token of " + id), Issued: now, Until: now.Add(10 * time.Second),
		})
		if err != nil {
			panic(err)
		}
		s, err := verifier.Accept(context.Background(), text)
		fmt.Println(s.Leader, s.Term, err)
	}
	show("one", 1)
	show("two", 2)
	show("one", 1)
	// Output:
	// one 1 <nil>
	// two 2 <nil>
	//  0 fence: stale term 1/7c95b9dd: 2/2b76c235 was accepted
}

// The whole way of a leader: its term, its window, its signature.
func BenchmarkSign(b *testing.B) {
	l := newLab(b, proof.VerifierOptions{})
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: time.Minute, HeartbeatInterval: time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	terms := make(chan context.Context, 1)
	e.OnPromote(func(ctx context.Context, _ string) { terms <- ctx })
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Stop() }()
	s, err := proof.NewSigner(e, "reports", "host-1", l.key, proof.SignerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := <-terms
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Sign(ctx, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	l := newLab(b, proof.VerifierOptions{})
	s := statement(7)
	s.Until = s.Until.Add(30 * time.Minute)
	text := l.sign(s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Accept(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}

// A forged proof costs no more than a good one.
func BenchmarkRefuse(b *testing.B) {
	l, other := newLab(b, proof.VerifierOptions{}), newLab(b, proof.VerifierOptions{})
	header, payload := l.parts(l.sign(statement(7)))
	text := other.forge(header, payload)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Accept(b.Context(), text); err == nil {
			b.Fatal("accepted")
		}
	}
}

func TestVetTakesTheTermThatAnAcceptedProofOfTheGroupStates(t *testing.T) {
	gate := new(fence.Gate)
	l := newLab(t, proof.VerifierOptions{Gate: gate})
	gate.Vet = l.Vet
	s := l.accepted(t, l.sign(statement(7))) // the verifier's own gate vets what it has verified
	work, leave, err := l.Enter(t.Context(), l.sign(statement(8)))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if err := l.Vet(work, fence.Mark{Term: 8, Digest: s.Digest}); err != nil {
		t.Error(err)
	}
	challenge := proof.NewChallenge()
	answer := statement(9)
	answer.Audience = "answer to " + challenge
	if _, err := l.AcceptAnswer(t.Context(), challenge, l.sign(answer)); err != nil {
		t.Error(err)
	}
	other := s
	other.Group = "invoices"
	for name, c := range map[string]struct {
		ctx context.Context
		m   fence.Mark
	}{
		"no proof":             {t.Context(), s.Mark()},
		"one of another term":  {work, s.Mark()},
		"one of another token": {work, fence.Mark{Term: 8, Digest: fence.Digest("x")}},
		"one of another group": {proof.NewContext(t.Context(), other), other.Mark()},
	} {
		if err := l.Vet(c.ctx, c.m); !errors.Is(err, proof.ErrNoProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := gate.AcceptMark(t.Context(), fence.Mark{Term: 10, Digest: s.Digest}); !errors.Is(err, fence.ErrRefused) {
		t.Errorf("past the verifier: %v", err)
	}
}
