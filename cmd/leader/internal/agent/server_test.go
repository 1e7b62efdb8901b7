package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
	"github.com/seed-ff2cb582/leader/proof"
)

func TestPatternThatIsNoneIsTheClientsFault(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		for _, pattern := range []string{"a%20b", ">.a", "a..b", strings.Repeat("a", 300), "%00"} {
			if status, code := l.refused(http.MethodGet, "/v1/groups?pattern="+pattern, "", nil); status != http.StatusBadRequest || code != "invalid" {
				t.Errorf("%.20q: %d %s", pattern, status, code)
			}
		}
	})
}

// A log is read by more people than may speak for a candidate.
func TestALogDoesNotShowThePathsOfCandidates(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		log := new(bytes.Buffer)
		l.s.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c := l.campaign("a", "")
		c.lead()
		synctest.Wait() // until nobody looks at the election
		l.s.byHandle[c.Candidate].e = broken{l.s.byHandle[c.Candidate].e}
		if status, _ := l.refused(http.MethodPost, c.path+"/resign", `{}`, nil); status != http.StatusInternalServerError {
			t.Fatal(status)
		}
		if text := log.String(); !strings.Contains(text, "/resign") || strings.Contains(text, c.Candidate) {
			t.Errorf("%s", text)
		}
	})
}

// A broken election panics at a question of the agent's.
type broken struct{ leader.Election }

func (broken) IsLeader() bool { panic("a defect") }

// A proof that a client shows to others must not outlast the client's own
// grant: it is withdrawn from at the end of its lease, and another leads.
func TestAProofEndsWithTheClientsLease(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		key := l.sign()
		keys, err := proof.NewKeySet(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		v, err := proof.NewVerifier("g", keys, proof.VerifierOptions{Skew: -1})
		if err != nil {
			t.Fatal(err)
		}
		c := l.campaign("a", `,"lease_ms":500`)
		c.lead()
		var made proofAnswer
		if err := json.Unmarshal([]byte(l.ask(http.StatusOK, http.MethodPost, c.path+"/proof", `{"lifetime_ms":60000}`)), &made); err != nil {
			t.Fatal(err)
		}
		if s, err := v.Verify(made.Proof); err != nil || s.Until.After(c.until) || time.Until(s.Until) < time.Millisecond {
			t.Errorf("good until %v, and the client until %v: %v", s.Until, c.until, err)
		}
	})
}

// The trust that is granted beside a proof counts like the trust of any other
// answer, however short the proof is: it moves no lease, and the release waits
// for it.
func TestProofContainsHowLongTheClientIsTrusted(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		l.sign()
		c := l.campaign("a", `,"lease_ms":2000`)
		c.lead()
		r := l.rival()
		after(100 * time.Millisecond) // it follows
		c.keep()
		until := c.until
		prove := func() time.Time {
			sent := time.Now()
			var made proofAnswer
			if err := json.Unmarshal([]byte(l.ask(http.StatusOK, http.MethodPost, c.path+"/proof", `{"lifetime_ms":1}`)), &made); err != nil {
				t.Fatal(err)
			}
			if made.Term != c.Term || made.Proof == "" {
				t.Fatalf("%+v", made)
			}
			return sent.Add(time.Duration(made.Trust) * time.Millisecond)
		}
		after(300 * time.Millisecond)
		if told := prove(); !told.Equal(until) {
			t.Errorf("trusted until %v later than after the keepalive, want the same: this request is not a keepalive", told.Sub(until))
		}
		// Only this answer reports the next lease.
		one, err := l.s.find("g", c.Candidate)
		if err != nil {
			t.Fatal(err)
		}
		one.keep()
		told := prove()
		if !told.After(until) {
			t.Fatalf("trusted until %v after the end of the former lease", told.Sub(until))
		}
		control, err := leader.NewControlWithStore(l.st, "operator")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := control.File(t.Context(), leader.Request{Group: "g", Op: leader.OpStepDown}); err != nil {
			t.Fatal(err)
		}
		if at := r.leads(t); at.Before(told) {
			t.Errorf("the next leads %v before the trust ended that came with the proof", told.Sub(at))
		}
	})
}

// Clients reach a listener by its name or not, and measure by other clocks or
// not.
func TestWhereAnAgentListensDecidesWhatItTrusts(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]struct{ named, shares bool }{
		"unix:///run/s": {false, false}, "127.0.0.1:0": {true, false}, "[::1]:0": {true, false}, "localhost:0": {true, false},
		"0.0.0.0:0": {true, true}, ":0": {true, true}, "agent.example:1": {true, true},
	} {
		count, err := newCounters()
		if err != nil {
			t.Fatal(err)
		}
		s, err := Command{Listen: listen, Profile: "stable", MaxCandidates: 1, MaxStreams: 1}.server(count, app.Streams{Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if shares := s.share < 0.82 && s.share > 0.81; s.gate.named != want.named || shares != want.shares || !shares && s.share != 1 {
			t.Errorf("%s: named %v, share %v", listen, s.gate.named, s.share)
		}
	}
}

// A line is a listener with one connection, in memory and so in virtual time.
type line struct {
	conn chan net.Conn
	done chan struct{}
}

func (l line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l line) Close() error { close(l.done); return nil }

func (line) Addr() net.Addr { return &net.UnixAddr{Name: "line", Net: "unix"} }

func TestABodyThatDoesNotArriveIsAnsweredAllTheSame(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		ctx, cancel := context.WithCancel(t.Context())
		ln, served := line{make(chan net.Conn), make(chan struct{})}, make(chan error, 1)
		go func() { served <- web.On(ctx, ln, l.h).Serve(ctx) }()
		ours, theirs := net.Pipe()
		ln.conn <- theirs
		go func() {
			_, _ = io.WriteString(ours, "POST /v1/groups/g/candidates HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{")
		}()
		begun := time.Now()
		_ = ours.SetReadDeadline(begun.Add(time.Hour))
		answer := make([]byte, 64)
		if n, err := ours.Read(answer); err != nil || !bytes.Contains(answer[:n], []byte(" 400 ")) || time.Since(begun) > 2*slowBody {
			t.Errorf("%q, %v after %v", answer[:n], err, time.Since(begun))
		}
		_ = ours.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
