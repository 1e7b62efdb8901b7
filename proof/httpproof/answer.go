package httpproof

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-ff2cb582/leader/proof"
)

// Challenge is the header of a request that asks for a proof in the answer.
const Challenge = "Leader-Challenge"

// ErrUnproved is the error for an answer of which it is not proved that the
// leader gave it. It wraps the reason: proof.ErrNoProof, proof.ErrInvalid,
// proof.ErrExpired, proof.ErrNotYet or fence.ErrStale.
var ErrUnproved = errors.New("httpproof: the answer is not proved to be the leader's")

// An Asker is an http.RoundTripper that demands of each answer a proof that it
// was the leader who gave it:
//
//	client := &http.Client{Transport: &httpproof.Asker{Verifier: verifier}}
//
// Each request carries its own challenge. An answer that shows no proof, or
// none for that challenge, is not returned: its body is closed, and the error
// matches ErrUnproved. The same holds for a former leader's answer, once one of
// its successors has answered. Only an answer which means that nothing was done
// there is returned as it is, without a proof: a redirection (307, 308), 421
// Misdirected Request and 503 Service Unavailable, as followers answer. The
// next server after a redirection is asked again.
//
// The request has been sent by then. A request that must not reach an impostor,
// or be changed on the way, has to go over TLS, since a proof shows who
// answered, and not what. The proof is made when the answer begins, and does
// not cover the rest of a long one.
//
// An Asker may be used concurrently, and below leaderhttp.Transport, as its
// Options.Transport.
type Asker struct {
	// Verifier judges the proofs. Required. Its Audience does not matter here.
	Verifier *proof.Verifier
	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *Asker) RoundTrip(r *http.Request) (*http.Response, error) {
	challenge := proof.NewChallenge()
	asked := r.Clone(r.Context())
	asked.Header.Set(Challenge, challenge)
	base := a.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(asked)
	if err != nil {
		return nil, err
	}
	text, err := Read(resp.Header)
	if errors.Is(err, proof.ErrNoProof) && undone(resp.StatusCode) {
		resp.Request = r
		return resp, nil
	}
	var s proof.Statement
	if err == nil {
		s, err = a.Verifier.AcceptAnswer(r.Context(), challenge, text)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnproved, err)
	}
	resp.Header.Del(Header)
	resp.Request = r.WithContext(proof.NewContext(r.Context(), s))
	return resp, nil
}

// undone reports whether an answer means that nothing was done.
func undone(status int) bool {
	switch status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusMisdirectedRequest, http.StatusServiceUnavailable:
		return true
	default:
		return false
	}
}

// AnsweredBy returns what the proof of an answer states that an [Asker] has
// accepted.
func AnsweredBy(resp *http.Response) (proof.Statement, bool) {
	if resp.Request == nil {
		return proof.Statement{}, false
	}
	return proof.FromContext(resp.Request.Context())
}

// Prove returns middleware that shows a proof with each answer for which the
// client asks by a challenge, as an [Asker] does:
//
//	http.Handle("/reports/", httpproof.Prove(signer)(reports))
//
// The proof is signed when the answer begins, so that its time does not run out
// while the handler works. If the context of the request is a term's, as within
// leader.Election.Do, the proof is of that term. An instance that does not
// lead, or no longer, sends its answer unchanged: without a proof, so that an
// Asker refuses it, or with the proof of the leader to which it was forwarded.
//
// It signs for everyone who asks, and nothing that is worth anything to others:
// the proof answers that challenge alone.
func Prove(s *proof.Signer) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked := r.Header.Values(Challenge)
			if len(asked) != 1 {
				next.ServeHTTP(w, r)
				return
			}
			p := &proving{ResponseWriter: w, sign: func() (string, error) { return s.Answer(r.Context(), asked[0]) }}
			next.ServeHTTP(p, r)
			p.begin() // of an answer without a body
		})
	}
}

// A proving is an answer that shows a proof.
type proving struct {
	http.ResponseWriter

	sign  func() (string, error)
	begun bool
}

// begin adds the proof, before the headers are sent.
func (p *proving) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.Header().Add("Vary", Challenge)
	if text, err := p.sign(); err == nil {
		p.Header().Set(Header, text)
	}
}

// WriteHeader implements http.ResponseWriter.
func (p *proving) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		p.begin()
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *proving) Write(b []byte) (int, error) {
	p.begin()
	return p.ResponseWriter.Write(b)
}

// FlushError is what http.ResponseController calls.
func (p *proving) FlushError() error {
	p.begin()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (p *proving) Flush() { _ = p.FlushError() }

// Unwrap has http.ResponseController find what else the writer can do.
func (p *proving) Unwrap() http.ResponseWriter { return p.ResponseWriter }
