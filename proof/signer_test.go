package proof_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/leadertest"
	"github.com/seed-ff2cb582/leader/proof"
)

// led is an election that the test steers, with a signer and a verifier.
type led struct {
	*lab
	*leadertest.Election

	signer *proof.Signer
	terms  atomic.Pointer[context.Context] // the context of the latest term
}

func newLed(t *testing.T, cfg leader.ElectionConfig, opts proof.SignerOptions) *led {
	t.Helper()
	cfg.Group, cfg.InstanceID = "reports", "host-1"
	l := &led{lab: newLab(t, proof.VerifierOptions{Skew: -1}), Election: leadertest.New(t, cfg)}
	l.OnPromote(func(ctx context.Context, _ string) {
		l.terms.Store(&ctx)
		<-ctx.Done()
	})
	var err error
	if l.signer, err = proof.NewSigner(l.Election, "reports", "host-1", l.key, opts); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// promoted makes the candidate lead, and returns the context of its term.
func (l *led) promoted() context.Context {
	l.Promote()
	synctest.Wait()
	return *l.terms.Load()
}

func TestProofStatesTheTermAndEndsWithTheTrustWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{TTL: 3 * time.Second}, proof.SignerOptions{})
		ctx := l.promoted()
		term := l.Term()
		for range 50 {
			text, err := l.signer.Sign(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			s := l.accepted(t, text)
			want := proof.Statement{
				Group: "reports", Leader: "host-1", Term: term.Number, Digest: fence.Digest(term.Token), Issued: s.Issued, Until: s.Until, Key: l.key.ID(),
			}
			if s != want || s.Mark() != fence.MarkOf(term) {
				t.Fatalf("%+v, want %+v", s, want)
			}
			if window := l.TrustUntil(); s.Until.After(window) || window.Sub(s.Until) > time.Millisecond {
				t.Fatalf("it ends at %v, and the window at %v", s.Until, window)
			}
			time.Sleep(137 * time.Millisecond) // beside the renewals
		}
	})
}

func TestProofLastsNoLongerThanItsLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{TTL: 30 * time.Second}, proof.SignerOptions{Lifetime: 2 * time.Second})
		text, err := l.signer.Sign(l.promoted(), "")
		if err != nil {
			t.Fatal(err)
		}
		if s := l.accepted(t, text); s.Until.Sub(s.Issued) != 2*time.Second {
			t.Errorf("%v", s.Until.Sub(s.Issued))
		}
	})
}

// A candidate that leads again must not sign for the work of its earlier term.
func TestOldWorkGetsNoProofOfTheTermAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{}, proof.SignerOptions{})
		old := l.promoted()
		careless := context.WithoutCancel(old) // it does not notice the end
		l.Demote()
		for _, ctx := range []context.Context{old, careless} {
			if text, err := l.signer.Sign(ctx, ""); text != "" || !errors.Is(err, leader.ErrNotLeader) {
				t.Errorf("after the term: %q, %v", text, err)
			}
		}
		now := l.promoted()
		for _, ctx := range []context.Context{old, careless} {
			if text, err := l.signer.Sign(ctx, ""); text != "" || !errors.Is(err, leader.ErrNotLeader) {
				t.Errorf("in the next term: %q, %v", text, err)
			}
		}
		if _, err := l.signer.Sign(now, ""); err != nil {
			t.Errorf("in the present term: %v", err)
		}
		if text, err := l.signer.Sign(t.Context(), ""); text != "" || !errors.Is(err, proof.ErrNoTerm) {
			t.Errorf("outside of a term: %q, %v", text, err)
		}
	})
}

// The claim of the package, on clocks that agree: no proof of the leader that
// was cut off is accepted when another leads.
// A client names the audience, and must not have a challenge of somebody else's
// answered by that.
func TestSignAnswersNoChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{TTL: 3 * time.Second}, proof.SignerOptions{})
		if _, err := l.signer.Sign(l.promoted(), "answer to "+proof.NewChallenge()); !errors.Is(err, proof.ErrInvalid) {
			t.Error(err)
		}
	})
}

func TestProofOfALeaderThatIsCutOffEndsBeforeAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{TTL: 3 * time.Second}, proof.SignerOptions{Lifetime: time.Minute})
		ctx := l.promoted()
		l.CutOff()
		var last string
		for {
			text, err := l.signer.Sign(ctx, "")
			if err != nil {
				break
			}
			last = text
			l.accepted(t, text)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		if l.Group().Leader() != "host-1" {
			t.Error("another leads already: the test is too late")
		}
		l.refused(t, last, proof.ErrExpired)
	})
}

// The proof in use changes in a long term, and the term does not.
func TestRotationKeepsAGoodProofThroughALongTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{TTL: 3 * time.Second}, proof.SignerOptions{})
		ctx := l.promoted()
		term := l.Term()
		var mu sync.Mutex
		var current string
		seen := map[string]bool{}
		ended := make(chan error, 1)
		go func() {
			ended <- l.signer.Rotate(ctx, "", func(text string, _ time.Time) error {
				mu.Lock()
				defer mu.Unlock()
				current, seen[text] = text, true
				return nil
			})
		}()
		held := func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return current
		}
		for range 1200 { // two minutes
			if s := l.accepted(t, held()); s.Mark() != fence.MarkOf(term) {
				t.Fatalf("%v in term %v", s, term)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(seen); n < 120 || n > 600 {
			t.Errorf("%d proofs in two minutes", n)
		}
		l.Expire()
		if err := <-ended; !errors.Is(err, leader.ErrNotLeader) {
			t.Errorf("it ended with %v", err)
		}
		l.refused(t, held(), proof.ErrExpired)
		t.Logf("%d proofs of one term", len(seen))
	})
}

func TestRotationEndsWithWhatTakesTheProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{}, proof.SignerOptions{})
		full := errors.New("the disk is full")
		calls := 0
		err := l.signer.Rotate(l.promoted(), "", func(string, time.Time) error {
			calls++
			if calls == 3 {
				return full
			}
			return nil
		})
		if !errors.Is(err, full) || calls != 3 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

func TestKeysAreReplacedWithoutARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t, leader.ElectionConfig{}, proof.SignerOptions{})
		ctx := l.promoted()
		sign := func() string {
			text, err := l.signer.Sign(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		successor, err := proof.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		set := setOf(t, l.key.Public())
		both, err := set.With(successor.Public())
		if err != nil {
			t.Fatal(err)
		}
		before := sign()
		if err := l.SetKeys(both); err != nil {
			t.Fatal(err)
		}
		if err := l.signer.SetKey(successor); err != nil {
			t.Fatal(err)
		}
		after := sign()
		if s := l.accepted(t, after); s.Key != successor.ID() {
			t.Errorf("signed by %s", s.Key)
		}
		l.accepted(t, before) // the overlap: of one term, by two keys
		if err := l.SetKeys(both.Without(l.key.ID())); err != nil {
			t.Fatal(err)
		}
		l.refused(t, before, proof.ErrInvalid)
		l.accepted(t, after)
		if err := errors.Join(l.SetKeys(proof.KeySet{}), l.signer.SetKey(proof.Key{})); !errors.Is(err, proof.ErrKey) {
			t.Errorf("%v", err)
		}
		l.accepted(t, sign())
	})
}

func TestImpossibleSettingsAreRefused(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	e := leader.Election(nil)
	for name, err := range map[string]error{
		"no election":         second(proof.NewSigner(e, "reports", "x", l.key, proof.SignerOptions{})),
		"no group":            second(proof.NewSigner(status{}, "re ports", "x", l.key, proof.SignerOptions{})),
		"no id":               second(proof.NewSigner(status{}, "reports", "", l.key, proof.SignerOptions{})),
		"a lifetime":          second(proof.NewSigner(status{}, "reports", "x", l.key, proof.SignerOptions{Lifetime: -1})),
		"no group to verify":  second(proof.NewVerifier("", setOf(t, l.key.Public()), proof.VerifierOptions{})),
		"a negative lifetime": second(proof.NewVerifier("reports", setOf(t, l.key.Public()), proof.VerifierOptions{MaxLifetime: -1})),
		"an audience":         second(proof.NewVerifier("reports", setOf(t, l.key.Public()), proof.VerifierOptions{Audience: "\xff"})),
	} {
		if !errors.Is(err, proof.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"no key":  second(proof.NewSigner(status{}, "reports", "x", proof.Key{}, proof.SignerOptions{})),
		"no keys": second(proof.NewVerifier("reports", proof.KeySet{}, proof.VerifierOptions{})),
	} {
		if !errors.Is(err, proof.ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// status is an election that leads in one term for ever.
type status struct{ leader.ElectionStatus }

func (s status) Status() leader.ElectionStatus { return s.ElectionStatus }
