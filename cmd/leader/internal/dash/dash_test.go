package dash

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
)

func TestACookieIsGoodForOneVisitOfThisCommand(t *testing.T) {
	g, other := newGate("correct-horse-battery"), newGate("correct-horse-battery")
	cookie := func(signer *gate, until time.Time) string {
		text := strconv.FormatInt(until.Unix(), 10)
		return text + "." + signer.sign(text)
	}
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	for name, c := range map[string]struct {
		value string
		want  bool
	}{
		"ours":                 {cookie(g, later), true},
		"over":                 {cookie(g, before), false},
		"of another start":     {cookie(other, later), false},
		"prolonged":            {strconv.FormatInt(later.Unix(), 10) + "." + g.sign(strconv.FormatInt(before.Unix(), 10)), false},
		"signed, and no time":  {"for-ever." + g.sign("for-ever"), false},
		"without a signature":  {strconv.FormatInt(later.Unix(), 10), false},
		"empty":                {"", false},
		"signature of nothing": {"." + g.sign(""), false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/events", http.NoBody)
		r.AddCookie(&http.Cookie{Name: cookieFor(r), Value: c.value})
		if got := !g.visitUntil(r).IsZero(); got != c.want {
			t.Errorf("%s: let in: %v, want %v", name, got, c.want)
		}
	}
}

// A stream lasts for as long as its connection, which may be days.
func TestAStreamEndsWithItsVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("correct-horse-battery")
		ctx, cancel := context.WithTimeout(t.Context(), 10*visit)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/events", http.NoBody)
		until := strconv.FormatInt(time.Now().Add(visit).Unix(), 10)
		r.AddCookie(&http.Cookie{Name: cookieFor(r), Value: until + "." + g.sign(until)})
		begun, served := time.Now(), false
		g.guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			served = true
			<-r.Context().Done()
		})).ServeHTTP(httptest.NewRecorder(), r)
		if took := time.Since(begun); !served || took > visit {
			t.Errorf("let in: %v; it lasted for %v, and the visit for %v", served, took, visit)
		}
	})
}

// Browsers distinguish cookies by their host alone and not by its port.
func TestVisitsOfTwoPagesOnOneHostAreIndependent(t *testing.T) {
	const token = "correct-horse-battery"
	jar := map[string]string{} // of one host, by the cookies' names
	hosts := map[string]*gate{"nats.example:9465": newGate(token), "nats.example:9466": newGate(token), "nats.example": newGate(token)}
	for host, g := range hosts {
		r := httptest.NewRequest(http.MethodPost, "http://"+host+"/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		g.login(w, r)
		for _, c := range w.Result().Cookies() {
			jar[c.Name] = c.Value
		}
	}
	for host, g := range hosts {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+"/", http.NoBody)
		for name, value := range jar {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		if g.visitUntil(r).IsZero() {
			t.Errorf("%s asks for the token again", host)
		}
	}
}

// A patient is a recorder that takes deadlines, as connections do.
type patient struct{ *httptest.ResponseRecorder }

func (patient) SetWriteDeadline(time.Time) error { return nil }

// The page takes the command for gone when it has heard nothing for twelve
// seconds. Comments of a stream are not heard.
func TestAStreamWithoutNewsHasAPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&board.Board{}, &app.Session{NC: new(nats.Conn)}, func(string) {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := patient{httptest.NewRecorder()}
		s.stream(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/events", http.NoBody))
		said := w.Body.String()
		if n := strings.Count(said, "event: pulse\ndata: "); n < 9 || n > 12 {
			t.Errorf("%d pulses in a minute:\n%s", n, said)
		}
	})
}

func TestAFloodOfWrongTokensIsOneLineInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		s := newServer(&board.Board{}, &app.Session{}, func(text string) { lines = append(lines, text) })
		g := newGate("correct-horse-battery")
		g.refused = s.refused
		for range 25 {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header.Set("Authorization", "Bearer wrong-horse-battery")
			if g.bears(r) {
				t.Fatal("a wrong token was let in")
			}
			time.Sleep(time.Second)
		}
		want := []string{"(1 since the last such line)", "(10 since the last such line)", "(10 since the last such line)"}
		if len(lines) != len(want) {
			t.Fatalf("%q", lines)
		}
		for i, l := range lines {
			if !strings.Contains(l, want[i]) || !strings.Contains(l, "192.0.2.1") || strings.Contains(l, "horse") {
				t.Errorf("line %d: %q", i, l)
			}
		}
	})
}

func TestPageLearnsWhichGroupsAreForgotten(t *testing.T) {
	for reason, want := range map[leader.Reason]bool{leader.ReasonForgotten: true, leader.ReasonVacated: false, leader.ReasonStopped: false} {
		g := board.Group{LeaderInfo: leader.LeaderInfo{Group: "g", Reason: reason}}
		if v := viewOf(g, time.Now()); v.Hidden != want {
			t.Errorf("%s: %+v", reason, v)
		}
	}
}
