package agent

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader"
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
