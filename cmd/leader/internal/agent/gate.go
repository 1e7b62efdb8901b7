package agent

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

const (
	// maxBody has room for the parameters and metadata of the largest record.
	maxBody = 64 << 10
	// slowBody is how long a request may take to arrive.
	slowBody = 5 * time.Second
	// minToken is how many bytes a token has at least.
	minToken  = 16
	maxToken  = 4 << 10
	bearer    = "Bearer "
	jsonMedia = "application/json"
)

// A gate lets in requests of programs on this machine, or those that know the
// token.
type gate struct {
	token *[sha256.Size]byte // its hash, so that comparing reveals nothing about its length; nil for none
	// A client reaches the agent by the name of a host, which a web site may
	// take for its own.
	named bool
	count *counters
}

// guard refuses what comes from a browser, through a name that is not this
// machine's, or without the token. A web page must not steer elections: it may
// send requests to a loopback address, or have its own name resolve to one, and
// the browser's headers name their origin. open lets in without the token.
func (g *gate) guard(next http.Handler, open bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store") // a repeated answer would grant trust again
		h.Set("X-Content-Type-Options", "nosniff")
		if f := g.refusal(r, open); f != nil {
			g.count.refuse(f.code)
			f.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusal returns why a request is not let in, nil if it is. A browser's
// request is refused also with the token: programs do not send these headers.
func (g *gate) refusal(r *http.Request, open bool) *failure {
	switch {
	case r.Method == http.MethodHead: // the mux takes it for a GET, and a stream would have nothing to send
		return &failure{status: http.StatusMethodNotAllowed, code: "no_route", detail: "HEAD is not answered"}
	case g.named && g.token == nil && !web.Loopback(r.Host):
		return &failure{status: http.StatusForbidden, code: "host", detail: "without a token only requests to localhost are answered"}
	case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
		return &failure{status: http.StatusForbidden, code: "browser", detail: "the agent is for programs, and a browser sent this request"}
	case !open && !g.admits(r):
		return &failure{status: http.StatusUnauthorized, code: "token", detail: "a token is needed, in the header Authorization: Bearer"}
	}
	return nil
}

// admits reports whether the request bears the token, in a time that reveals
// nothing about it. Without a token all are let in.
func (g *gate) admits(r *http.Request) bool {
	if g.token == nil {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 && ok
}

// readToken reads a token, which is the only content of its file. A token that
// a header cannot contain is refused here: no client could ever send it.
func readToken(path string) (*[sha256.Size]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return nil, err
	}
	token := bytes.TrimSpace(b)
	if len(token) < minToken || len(b) > maxToken {
		return nil, fmt.Errorf("%s: must hold a token of %d to %d bytes", path, minToken, maxToken)
	}
	if bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s: must hold one line of printable ASCII without spaces", path)
	}
	sum := sha256.Sum256(token)
	return &sum, nil
}

// read reads the body of a request, a JSON object, into what v points to. No
// body is an empty object.
//
// Unknown fields are refused, since otherwise a mistyped field name would be
// silently ignored, and a candidate would campaign without its priority, or a
// resignation would end any term. The deadline is removed when the body has
// arrived, since the handler may wait for long, and a read that has timed out
// would end its request.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(slowBody)) // an error shows when reading
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{}) // the end of the connection is noticed by a read that waits
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return &failure{status: http.StatusRequestEntityTooLarge, code: "too_large", detail: fmt.Sprintf("a body has %d bytes at the most", maxBody)}
	}
	if err != nil {
		return invalid("the body did not arrive: " + err.Error())
	}
	if len(body) == 0 {
		return nil
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != jsonMedia {
		return &failure{status: http.StatusUnsupportedMediaType, code: "media_type", detail: "a body must be " + jsonMedia}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return undecoded(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body goes on after the object")
	}
	return nil
}

// undecoded returns the failure for a body that is not what it should be.
func undecoded(err error) error {
	f := invalid("the body cannot be read: " + strings.TrimPrefix(err.Error(), "json: "))
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		f.faults = []fault{{e.Field, e.Value, "must be a " + kindOf(e.Type)}}
	}
	return f
}

// invalid is the failure for a request that is wrong in itself.
func invalid(detail string, faults ...fault) *failure {
	return &failure{status: http.StatusBadRequest, code: "invalid", detail: detail, faults: faults}
}
