package proof_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
)

// leads is an election that leads in a term, or in none.
type leads struct{ term uint64 }

func (l *leads) Status() leader.ElectionStatus {
	if l.term == 0 {
		return leader.ElectionStatus{}
	}
	return leader.ElectionStatus{IsLeader: true, Term: l.term, Token: "token", TrustUntil: time.Now().Add(10 * time.Second)}
}

// answering returns a signer with the lab's key.
func (l *lab) answering(e proof.Election, group string) *proof.Signer {
	l.tb.Helper()
	s, err := proof.NewSigner(e, group, "host-1", l.key, proof.SignerOptions{})
	if err != nil {
		l.tb.Fatal(err)
	}
	return s
}

// to signs a statement that answers a challenge.
func (l *lab) to(challenge string, change func(*proof.Statement)) string {
	l.tb.Helper()
	s := statement(7)
	s.Audience = "answer to " + challenge
	change(&s)
	return l.sign(s)
}

// Each of these is what an impostor may have, and shows to a client that asks
// it to prove that it leads.
func TestAnAnswerIsOfTheLeaderAndOfNow(t *testing.T) {
	// Services and askers of one group, whose proofs are for everyone and for
	// one audience.
	for name, opts := range map[string]proof.VerifierOptions{"everyone": {}, "archive": {Audience: "archive"}} {
		t.Run(name, func(t *testing.T) {
			l, stranger := newLab(t, opts), newLab(t, opts)
			e := &leads{7}
			signer := l.answering(e, "reports")
			ask := proof.NewChallenge()
			sign := func(s *proof.Signer, challenge string) string {
				text, err := s.Answer(t.Context(), challenge)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			request := statement(7)
			request.Audience = opts.Audience
			for name, c := range map[string]struct {
				text string
				want error
			}{
				"nothing":                           {"", proof.ErrNoProof},
				"a word":                            {"trust me", proof.ErrInvalid},
				"another's key":                     {sign(stranger.answering(e, "reports"), ask), proof.ErrInvalid},
				"another group's proof":             {sign(l.answering(e, "billing"), ask), proof.ErrInvalid},
				"the answer to another challenge":   {sign(signer, proof.NewChallenge()), proof.ErrInvalid},
				"the answer to the longer one":      {sign(signer, ask+"A"), proof.ErrInvalid},
				"a request's proof":                 {l.sign(request), proof.ErrInvalid},
				"one for the challenge as audience": {l.to("", func(s *proof.Statement) { s.Audience = ask }), proof.ErrInvalid},
				"an old one":                        {l.to(ask, func(s *proof.Statement) { s.Issued, s.Until = time.Now().Add(-time.Minute), time.Now() }), proof.ErrExpired},
				"one from the future":               {l.to(ask, func(s *proof.Statement) { s.Issued, s.Until = time.Now().Add(time.Minute), time.Now().Add(time.Hour) }), proof.ErrNotYet},
				"too long a one":                    {sign(signer, ask) + strings.Repeat("A", proof.MaxSize), proof.ErrInvalid},
			} {
				if s, err := l.AcceptAnswer(t.Context(), ask, c.text); !errors.Is(err, c.want) || s != (proof.Statement{}) || l.Last() != (fence.Mark{}) {
					t.Errorf("%s: %v, %v, remembered %v", name, s, err, l.Last())
				}
			}
			good := sign(signer, ask)
			if s, err := l.AcceptAnswer(t.Context(), ask, good); err != nil || s.Term != 7 || s.Leader != "host-1" {
				t.Errorf("%v, %v", s, err)
			}
			// A proof that anybody can get signed must not count for a service.
			l.refused(t, good, proof.ErrInvalid)
			later := l.to(ask, func(s *proof.Statement) { s.Term = 8 })
			if _, err := l.AcceptAnswer(t.Context(), ask, later); err != nil {
				t.Error(err)
			}
			if _, err := l.AcceptAnswer(t.Context(), ask, good); !errors.Is(err, fence.ErrStale) {
				t.Errorf("a former leader's: %v", err)
			}
		})
	}
}

func TestFollowerAnswersNoChallenge(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	e := &leads{}
	s := l.answering(e, "reports")
	if text, err := s.Answer(t.Context(), proof.NewChallenge()); !errors.Is(err, leader.ErrNotLeader) || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	e.term = 7
	ended, end := context.WithCancel(t.Context())
	end()
	if text, err := s.Answer(ended, proof.NewChallenge()); !errors.Is(err, context.Canceled) || text != "" {
		t.Errorf("after the end: %q, %v", text, err)
	}
	for _, challenge := range []string{"", "short", strings.Repeat("A", 129), "a challenge of blanks", "challenge\nchallenge", strings.Repeat("é", 20)} {
		if text, err := s.Answer(t.Context(), challenge); !errors.Is(err, proof.ErrInvalid) || text != "" {
			t.Errorf("%q: %q, %v", challenge, text, err)
		}
		if _, err := l.AcceptAnswer(t.Context(), challenge, "x"); !errors.Is(err, proof.ErrInvalid) {
			t.Errorf("%q: %v", challenge, err)
		}
	}
	if one, two := proof.NewChallenge(), proof.NewChallenge(); one == two {
		t.Error("two challenges are equal")
	}
}

// The audience of answers is reserved: a service by that name would accept
// proofs that anybody can get signed.
func TestTheAudienceOfAnswersIsReserved(t *testing.T) {
	l := newLab(t, proof.VerifierOptions{})
	audience := "answer to " + proof.NewChallenge()
	if _, err := proof.NewVerifier("reports", setOf(t, l.key.Public()), proof.VerifierOptions{Audience: audience}); !errors.Is(err, proof.ErrInvalid) {
		t.Errorf("a verifier: %v", err)
	}
}
