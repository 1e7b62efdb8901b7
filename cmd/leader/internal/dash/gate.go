package dash

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
	"github.com/seed-ff2cb582/leader/store"
)

const (
	cookieName = "leader_dash"
	visit      = 12 * time.Hour // how long a login is good for
	maxForm    = 4 << 10
	// slowBody is how long a request may take to arrive.
	slowBody = 5 * time.Second
)

// A gate lets in who knows the token.
type gate struct {
	token [sha256.Size]byte  // its hash, so that comparing reveals nothing about its length
	open  bool               // there is no token
	key   []byte             // signs cookies; a restart of the command ends every visit
	page  *template.Template // it asks for the token, and needs no script
	// refused, if not nil, is called with the address from which a wrong token
	// came.
	refused func(address string)
}

func newGate(token string) *gate {
	g := &gate{token: sha256.Sum256([]byte(token)), open: token == "", key: make([]byte, sha256.Size)}
	g.page = template.Must(template.ParseFS(page, "page/login.html")) // which is part of the program
	_, _ = rand.Read(g.key)                                           // it never fails
	return g
}

// checkHost refuses other names than this machine's own where no token protects
// the page: a site on the internet may have its own name resolve to 127.0.0.1,
// and would then be the page's own origin for the browser.
func (g *gate) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.open && !web.Loopback(r.Host) {
			http.Error(w, "this page is served to localhost only; other names need --dash-token", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guard lets requests in that bear the token, or a cookie that was given for
// it. A browser that asks for the page is led to the form; scripts and programs
// get 401, since the form would be no answer to them.
//
// The answer ends with the visit, since a stream would show who leads for as
// long as its connection lasts. A request that is obeyed by then is still
// answered.
func (g *gate) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.open || g.bears(r) {
			next.ServeHTTP(w, r)
			return
		}
		switch end := g.visitUntil(r); {
		case !end.IsZero() && r.Method == http.MethodPost:
			next.ServeHTTP(w, r)
		case !end.IsZero():
			ctx, cancel := context.WithDeadline(r.Context(), end)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		case (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.URL.Path == "/":
			// The visitor's part of the path is a group in its query.
			seeOther(w, loginFor(r, false))
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token is needed", http.StatusUnauthorized)
		}
	})
}

// bears reports whether the request has the token in its header.
func (g *gate) bears(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && g.admits(r, token)
}

// admits reports whether a visitor has given the token. A wrong one is
// reported.
func (g *gate) admits(r *http.Request, token string) bool {
	fits := g.fits(token)
	if !fits && g.refused != nil {
		g.refused(r.RemoteAddr)
	}
	return fits
}

// fits reports whether it is the token, in a time that does not reveal how much
// of it is right.
func (g *gate) fits(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// visitUntil returns when the visit of a request with the page's cookie ends.
// It is zero without such a cookie, and when the visit is over.
func (g *gate) visitUntil(r *http.Request) time.Time {
	c, err := r.Cookie(cookieFor(r))
	if err != nil {
		return time.Time{}
	}
	until, signature, _ := strings.Cut(c.Value, ".")
	if !hmac.Equal([]byte(signature), []byte(g.sign(until))) {
		return time.Time{}
	}
	unix, err := strconv.ParseInt(until, 10, 64)
	end := time.Unix(unix, 0)
	if err != nil || !time.Now().Before(end) {
		return time.Time{}
	}
	return end
}

// cookieFor is the name of the cookie of the page that a request is for.
// Browsers distinguish cookies by their host and not by its port, so that the
// pages of two buckets on one machine would replace each other's.
func cookieFor(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		return cookieName + "_" + port
	}
	return cookieName
}

// sign returns the proof that a cookie is of this command's making. The key is
// not the token: who reads a cookie must not be able to try tokens on it at
// home.
func (g *gate) sign(text string) string {
	mac := hmac.New(sha256.New, g.key)
	_, _ = mac.Write([]byte(text)) // it never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// login takes the token from the form of the page /login, which keeps it out of
// URLs.
//
// Without a path the cookie is for the one below which the browser sees the
// site. SameSite has no other site's request bear the cookie, and HttpOnly
// keeps it from scripts. The cookie contains its end, signed, so that nothing
// has to be remembered of visitors.
func (g *gate) login(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(slowBody)) // an error shows when reading
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if !g.open && !g.admits(r, r.PostFormValue("token")) {
		seeOther(w, loginFor(r, true))
		return
	}
	until := strconv.FormatInt(time.Now().Add(visit).Unix(), 10)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure follows the connection: on a plain one browsers would drop it
		Name: cookieFor(r), Value: until + "." + g.sign(until), MaxAge: int(visit.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	seeOther(w, withGroup("./", r))
}

// seeOther leads a browser to another path of the site. The path is relative,
// which http.Redirect would make absolute: behind a proxy the site may begin
// below the root.
func seeOther(w http.ResponseWriter, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// form shows the page that asks for the token, and states if the previous token
// was wrong.
func (g *gate) form(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = g.page.Execute(w, map[string]any{ // who has left needs no answer
		"Wrong": r.URL.Query().Has("wrong"), "Action": withGroup("login", r),
	})
}

// loginFor is the address of the form, which states if the token was wrong.
func loginFor(r *http.Request, wrong bool) string {
	if !wrong {
		return withGroup("login", r)
	}
	return withGroup("login?wrong", r)
}

// withGroup adds the group that a visitor asked for to a path of this site, so
// that a link to it outlives the login. Nothing else of the visitor's query is
// taken over.
func withGroup(path string, r *http.Request) string {
	group := r.URL.Query().Get("group")
	switch {
	case !store.ValidKey(group):
		return path
	case strings.Contains(path, "?"):
		path += "&"
	default:
		path += "?"
	}
	return path + url.Values{"group": {group}}.Encode()
}
