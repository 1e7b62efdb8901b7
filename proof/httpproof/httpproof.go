package httpproof

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-ff2cb582/leader/fence/httpfence"
	"github.com/seed-ff2cb582/leader/proof"
)

// Header is the header of a request that holds a proof.
const Header = "Leader-Proof"

// ErrRedirected is the error for a request that was redirected to another host,
// which must not learn the proof.
var ErrRedirected = errors.New("httpproof: redirected to another host")

// A Transport is an http.RoundTripper that shows a proof with each request. The
// request's context must be a term's, or descend from one:
//
//	client := &http.Client{Transport: &httpproof.Transport{Signer: signer, Audience: "billing"}}
//	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
//
// A request whose proof cannot be signed is not sent, and its error is the
// error of proof.Signer.Sign. The proof goes to the host of the first request,
// and not to the target of a redirect. A Transport may be used concurrently.
type Transport struct {
	// Signer signs the proofs. Required.
	Signer *proof.Signer
	// Audience is the VerifierOptions.Audience of the service. If empty, the
	// proof is valid for any audience.
	Audience string
	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := t.prove(r)
	if err != nil {
		// A RoundTripper closes the body, whatever happens.
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	shown := r.Clone(r.Context())
	shown.Header.Set(Header, text)
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(shown)
	if err != nil {
		return nil, err
	}
	resp.Request = answered(r, resp)
	return resp, nil
}

// answered sets the request that was answered, which a client needs to follow a
// redirect, whatever Base has made of it. Values that Base put into the
// answer's context, such as who gave it, stay.
func answered(r *http.Request, resp *http.Response) *http.Request {
	if resp.Request == nil {
		return r
	}
	return r.WithContext(resp.Request.Context())
}

func (t *Transport) prove(r *http.Request) (string, error) {
	// Each hop of a chain comes by here, so the one before was at the first
	// host.
	if r.Response != nil {
		if r.Response.Request == nil {
			// A transport of the caller has taken it out.
			return "", fmt.Errorf("%w, as far as is known: the response does not contain the origin of the redirect to %s", ErrRedirected, r.URL.Host)
		}
		before := r.Response.Request.URL
		if before.Host != r.URL.Host || before.Scheme != r.URL.Scheme {
			return "", fmt.Errorf("%w: %s", ErrRedirected, r.URL.Host)
		}
	}
	return t.Signer.Sign(r.Context(), t.Audience)
}

// Require returns middleware that lets a request through only if it shows a
// proof that the verifier accepts:
//
//	http.Handle("/reports/", httpproof.Require(verifier)(reports))
//
// The handler's context is the work context of proof.Verifier.Enter: it carries
// the statement (proof.FromContext), and ends when a newer term arrives, which
// then waits for the handler to return. The handler does not see the header.
func Require(v *proof.Verifier) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := Read(r.Header)
			if err != nil {
				Refuse(w, err)
				return
			}
			work, leave, err := v.Enter(r.Context(), text)
			if err != nil {
				Refuse(w, err)
				return
			}
			defer leave()
			// A handler that forwards the request must not forward the proof.
			r = r.Clone(work)
			r.Header.Del(Header)
			next.ServeHTTP(w, r)
		})
	}
}

// Read returns the proof that the headers of a request show. The error matches
// proof.ErrNoProof if there is none, and proof.ErrInvalid if there are several.
func Read(h http.Header) (string, error) {
	switch shown := h.Values(Header); {
	case len(shown) == 0 || len(shown) == 1 && shown[0] == "":
		return "", proof.ErrNoProof
	case len(shown) > 1:
		return "", fmt.Errorf("%w: %s must be given once", proof.ErrInvalid, Header)
	default:
		return shown[0], nil
	}
}

// A problem is the body of a refusal (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Refuse answers a request that err turned away, as documented for the package.
// Nothing must have been written to w before.
func Refuse(w http.ResponseWriter, err error) {
	p := problem{Status: http.StatusForbidden}
	switch {
	case errors.Is(err, proof.ErrNoProof):
		p = problem{"A leader's proof is required", http.StatusPreconditionRequired, "Show it in " + Header + "."}
	case errors.Is(err, proof.ErrExpired):
		p.Title, p.Detail = "Expired proof", err.Error()
	case errors.Is(err, proof.ErrNotYet):
		p.Title, p.Detail = "Proof from the future", err.Error()
	case errors.Is(err, proof.ErrInvalid):
		// Details would mostly help an attacker.
		p.Title = "Invalid proof"
	default:
		httpfence.Refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // a client that left needs no answer
}
