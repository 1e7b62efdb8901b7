package read

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/rollcall"
)

// After an error no leader of any other group is asked.
func TestALeaderInACrowdIsNotThereAndNoError(t *testing.T) {
	t.Parallel()
	nc, _ := devtest.Connect(t, devtest.Serve(t))
	_, err := nc.Subscribe(rollcall.Subject("leaders", "reports"), func(m *nats.Msg) {
		for range 1001 {
			_ = nc.Publish(m.Reply, []byte(`{"format":1,"bucket":"leaders","group":"reports","instance":"c"}`)) // asked again
		}
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	c, err := leaderOf(t.Context(), &app.Session{NC: nc, Bucket: "leaders"}, Group{Group: "reports", Leader: "w", Term: 7})
	if err != nil || c.Instance != "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Any user that hears the question may answer, with anything.
func TestAMalformedAnswerHidesNoLeader(t *testing.T) {
	t.Parallel()
	nc, _ := devtest.Connect(t, devtest.Serve(t))
	_, err := nc.Subscribe(rollcall.Subject("leaders", "reports"), func(m *nats.Msg) {
		_ = nc.Publish(m.Reply, []byte("no answer")) // asked again
		_ = nc.Publish(m.Reply, fmt.Appendf(nil, `{"format":1,"bucket":"leaders","group":"reports","instance":"w","state":%q,"term":7}`, leader.StateLeader))
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	c, err := leaderOf(t.Context(), &app.Session{NC: nc, Bucket: "leaders"}, Group{Group: "reports", Leader: "w", Term: 7})
	if err != nil || c.Instance != "w" {
		t.Errorf("%+v, %v", c, err)
	}
}
