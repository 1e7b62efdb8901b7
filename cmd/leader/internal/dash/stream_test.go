package dash

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
)

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
