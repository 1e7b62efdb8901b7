package dash

import (
	"embed"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/store"
)

//go:embed page
var page embed.FS

// A server serves the page and what it asks for.
type server struct {
	board   *board.Board
	session *app.Session
	store   store.Store
	control *leader.Control      // nil if the page only shows
	past    atomic.Pointer[past] // how far back the terms go
	say     func(string)         // prints for the user who started the command
	streams chan struct{}        // bounds how many visitors are followed
	rolls   chan struct{}        // bounds how many roll calls are under way
	wrong   tally                // of wrong tokens
}

func newServer(b *board.Board, session *app.Session, say func(string)) *server {
	s := &server{board: b, session: session, say: say, streams: make(chan struct{}, maxStreams), rolls: make(chan struct{}, maxRolls)}
	now := time.Now().UnixMilli()
	s.past.Store(&past{Began: now, Since: now})
	return s
}

// sayer returns a function that writes lines to w, from any goroutine. Text
// from outside must not steer a terminal.
func sayer(w io.Writer) func(string) {
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, "leader:", strings.Map(printable, text))
	}
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '\ufffd'
}

// handler is the whole site. An empty token demands none, and then only
// loopback names are answered to.
//
// The checks lie around one another from the outside in: the name by which the
// page was reached, the headers of any answer, the request's origin, the token.
// /livez needs no token, since orchestrators have none.
func (s *server) handler(token string) http.Handler {
	g := newGate(token)
	g.refused = s.refused
	inside := http.NewServeMux()
	inside.Handle("GET /{$}", file("index.html", "text/html; charset=utf-8"))
	inside.HandleFunc("GET /api/events", s.stream)
	inside.HandleFunc("GET /api/candidates", s.candidates)
	inside.HandleFunc("POST /api/control", s.steer)

	site := http.NewServeMux()
	site.Handle("/", g.guard(inside))
	// These files reveal nothing about elections, and the page that asks for
	// the token needs them.
	site.Handle("GET /dash.css", file("dash.css", "text/css; charset=utf-8"))
	site.Handle("GET /dash.js", file("dash.js", "text/javascript; charset=utf-8"))
	site.Handle("GET /icon.svg", file("icon.svg", "image/svg+xml"))
	site.HandleFunc("GET /login", g.form)
	site.HandleFunc("POST /login", g.login)
	site.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })

	return g.checkHost(secured(http.NewCrossOriginProtection().Handler(site)))
}

// refused reports a wrong token to the user who started the command, and many
// of them in one line.
func (s *server) refused(from string) {
	if n := s.wrong.note(time.Now()); n > 0 {
		s.say(fmt.Sprintf("%s gave a wrong token (%d since the last such line)", from, n))
	}
}

// A tally lets through one in a while of what may come in floods. A flood of
// wrong tokens must not fill a log, nor hide in it.
type tally struct {
	mu   sync.Mutex
	last time.Time
	held int
}

// refusals is the time between two lines about wrong tokens.
const refusals = 10 * time.Second

// note counts one, and returns how many there were since it last returned any,
// or 0 if it is too early to report.
func (t *tally) note(now time.Time) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held++
	if now.Sub(t.last) < refusals {
		return 0
	}
	n, t.held, t.last = t.held, 0, now
	return n
}

// policy allows this site's own files and nothing else, and no way to make code
// or markup of a string.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secured sets the headers of the site's answers, including errors and
// redirects. Otherwise a page in a frame of another site could have its buttons
// pressed without being seen, and a page in a cache would show who led.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// file serves a file of the page, which is part of the program.
func file(name, kind string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		content, err := page.ReadFile("page/" + name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(content) // who has left needs no answer
	})
}
