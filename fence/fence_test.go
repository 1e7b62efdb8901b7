package fence_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
)

func term(n uint64, token string) leader.Term { return leader.Term{Number: n, Token: token} }

func TestMarkAcceptsWhatSupersedesAllItHasSeen(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var m fence.Mark
		var last leader.Term // what a resource that knew the token would remember
		for range 50 {
			asks := term(1+rng.Uint64N(8), string('a'+rune(rng.IntN(3))))
			next, err := m.Accept(asks)
			if want := asks.Supersedes(last); want != (err == nil) {
				t.Fatalf("%v after %v: %v", asks, last, err)
			}
			if err == nil {
				m, last = next, asks
				continue
			}
			stale := (*fence.StaleError)(nil)
			if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || stale.Refused != fence.MarkOf(asks) || stale.Last != m || next != m {
				t.Fatalf("%v after %v: %#v, mark %v", asks, last, err, next)
			}
		}
	}
}

func TestZeroMarkAcceptsEveryValidTerm(t *testing.T) {
	for _, bad := range []leader.Term{
		{},
		term(0, "a"),
		term(fence.MaxTerm+1, "a"),
		term(1<<64-1, "a"),
		term(1, ""),
		term(1, "two words"),
		term(1, "new\nline"),
		term(1, "é"),
		term(1, strings.Repeat("x", fence.MaxToken+1)),
	} {
		m, err := fence.Mark{}.Accept(bad)
		if !errors.Is(err, fence.ErrInvalid) || errors.Is(err, fence.ErrStale) || !m.IsZero() {
			t.Errorf("%d with a token of %d bytes: %v", bad.Number, len(bad.Token), err)
		}
	}
	for _, good := range []leader.Term{term(1, "x"), term(fence.MaxTerm, strings.Repeat("x", fence.MaxToken))} {
		if m, err := (fence.Mark{}).Accept(good); err != nil || m != fence.MarkOf(good) {
			t.Errorf("%v: %v", good, err)
		}
	}
}

func TestMarkWrittenByAPersonAcceptsLargerTermsOnly(t *testing.T) {
	m := fence.Mark{Term: 7}
	for n, ok := range map[uint64]bool{6: false, 7: false, 8: true} {
		if _, err := m.Accept(term(n, "a")); ok != (err == nil) {
			t.Errorf("term %d: %v", n, err)
		}
	}
}

func TestNothingThatAGuardShowsContainsTheToken(t *testing.T) {
	const token = "6f1c2f6e-0c0e-4e0e-9d61-6ed0f6a1a6e3"
	m := fence.MarkOf(term(7, token))
	_, stale := m.Accept(term(6, token))
	_, invalid := m.Accept(term(0, token))
	_, broken := m.Accept(term(8, token+"\n"))
	text, err := m.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		m.String(), string(text), string(encoded), fmt.Sprintf("%#v", m),
		stale.Error(), fmt.Sprintf("%+v %#v", stale, stale), invalid.Error(), broken.Error(),
	} {
		if strings.Contains(shown, token) || shown == "" {
			t.Errorf("shows the token: %s", shown)
		}
	}
	// The same digits as in the logs of the candidates, for those who compare.
	if want := term(7, token).String(); m.String() != want {
		t.Errorf("%v, and the term is %v", m, want)
	}
}

func TestMarkSurvivesItsText(t *testing.T) {
	for _, m := range []fence.Mark{{}, {Term: 7}, fence.MarkOf(term(fence.MaxTerm, "x"))} {
		text, err := m.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var read fence.Mark
		if err := read.UnmarshalText(text); err != nil || read != m {
			t.Errorf("%s: %v, %v", text, read, err)
		}
	}
}

// A resource that took what it cannot read for the zero Mark would let everyone
// in.
func TestUnreadableMarkIsAnErrorAndNoMark(t *testing.T) {
	digest := fence.Digest("x")
	for _, text := range []string{
		"", "7", "/", "x/", "-1/", "7/x", "7/" + digest[1:], "7/" + strings.ToUpper(digest), "0/" + digest,
		"7/" + digest + "\n", "18446744073709551616/", "18446744073709551615/" + digest, "9007199254740993/", "7/" + digest + digest,
	} {
		m := fence.MarkOf(term(9, "y"))
		if err := m.UnmarshalText([]byte(text)); !errors.Is(err, fence.ErrInvalid) || m != fence.MarkOf(term(9, "y")) {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
}

// Guards in other languages compute it: the well-known digest of "abc".
func TestDigestIsTheHexadecimalSHA256(t *testing.T) {
	if got := fence.Digest("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(got)
	}
}

func TestMarkIsAcceptedAsItsTermWouldBe(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var m fence.Mark
	gate := new(fence.Gate)
	for range 200 {
		asks := term(1+rng.Uint64N(50), string('a'+rune(rng.IntN(3))))
		want, wantErr := m.Accept(asks)
		got, err := m.AcceptMark(fence.MarkOf(asks))
		if got != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("%v after %v: %v, %v, as a term %v, %v", asks, m, got, err, want, wantErr)
		}
		if gateErr := gate.AcceptMark(t.Context(), fence.MarkOf(asks)); (gateErr == nil) != (err == nil) || gate.Last() != got {
			t.Fatalf("%v after %v: the gate returns %v, and remembers %v", asks, m, gateErr, gate.Last())
		}
		m = got
	}
}

// Without a digest every holder of the number would be one leader.
func TestMarkThatNamesNoTermIsNotAccepted(t *testing.T) {
	digest := fence.Digest("t")
	for _, bad := range []fence.Mark{{}, {Term: 7}, {Digest: digest}, {Term: 7, Digest: "t"}, {Term: 7, Digest: strings.ToUpper(digest)}, {Term: fence.MaxTerm + 1, Digest: digest}} {
		gate := new(fence.Gate)
		_, leave, err := gate.EnterMark(t.Context(), bad)
		leave()
		if m, markErr := (fence.Mark{}).AcceptMark(bad); !errors.Is(markErr, fence.ErrInvalid) || !errors.Is(err, fence.ErrInvalid) ||
			!m.IsZero() || !gate.Last().IsZero() {
			t.Errorf("%v: %v, and at a gate %v", bad, markErr, err)
		}
	}
}

// The mark was accepted and stored by an earlier version. If it were reported
// as stale, the leader would stop permanently.
func TestGateWithAnImplausibleMarkReportsTheMark(t *testing.T) {
	locked := fence.Mark{Term: 1<<64 - 1, Digest: fence.Digest("x")}
	gate := fence.NewGate(locked)
	_, leave, entered := gate.Enter(t.Context(), term(7, "a"))
	leave()
	_, accepted := locked.Accept(term(7, "a"))
	for _, err := range []error{entered, accepted, gate.AcceptMark(t.Context(), fence.MarkOf(term(7, "a")))} {
		if !errors.Is(err, fence.ErrInvalid) || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "mark 18446744073709551615/2d711642") {
			t.Errorf("%v", err)
		}
	}
}
