package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/rollcall"
)

// thousand is what is said where more candidates answer than are listened to.
const thousand = "more than 1000 answers"

// crowd answers the roll call in the place of 1,001 candidates.
func (l *readLab) crowd(group string) {
	l.t.Helper()
	_, err := l.nc.Subscribe(rollcall.Subject(labBucket, group), func(m *nats.Msg) {
		for i := range 1001 {
			_ = l.nc.Publish(m.Reply, fmt.Appendf(nil, `{"format":1,"bucket":%q,"group":%q,"instance":"c%04d"}`, labBucket, group, i)) // asked again
		}
	})
	if err := errors.Join(err, l.nc.Flush()); err != nil {
		l.t.Fatal(err)
	}
}

// Each of them would take the thousand for all. On a busy machine the answers
// may pause for too long: hence again.
func TestOfMoreThanAThousandCandidatesAllThatCameIsShownAndThatThereAreMore(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.crowd("reports")
	vacancy := &nats.Msg{Subject: "$KV.leaders.reports", Data: []byte(`{"reason":"stopped"}`), Header: nats.Header{"KV-Operation": []string{"DEL"}}}
	env := []string{"NATS_URL=" + l.url}
	l.until("leader get shows them", func() error {
		code, out, stderr := runProgram(t, env, "get", "reports", "--timeout", "60s")
		if n := strings.Count(out, "\nc"); code != 0 || n != 1000 || !strings.Contains(stderr, thousand) {
			return fmt.Errorf("exit status %d, %d candidates, stderr %q", code, n, stderr)
		}
		return nil
	})
	l.until("leader forget warns", func() error {
		if _, err := l.js.PublishMsg(l.within(), vacancy); err != nil {
			return err
		}
		code, _, stderr := runProgram(t, env, "forget", "reports", "-y", "--timeout", "60s")
		if code != 0 || !strings.Contains(stderr, `candidate "c0000" stands (more than 1000 answered`) {
			return fmt.Errorf("exit status %d, stderr %q", code, stderr)
		}
		return nil
	})
	base, _ := startServing(t, env, "dash", "--http", "127.0.0.1:0", "--timeout", "60s")
	l.until("the page shows them", func() error {
		_, _, body := (visit{http.MethodGet, "/api/candidates?group=reports", "", nil}).ask(t, base)
		var r struct {
			Candidates []struct{}
			More       int
			Error      string
		}
		err := json.Unmarshal([]byte(body), &r)
		if err == nil && (len(r.Candidates) != 100 || r.More != 900 || !strings.Contains(r.Error, thousand)) {
			err = fmt.Errorf("%d candidates, %d more, error %q", len(r.Candidates), r.More, r.Error)
		}
		return err
	})
}
