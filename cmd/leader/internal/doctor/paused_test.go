package doctor

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Somebody may write whatever key they like.
func TestAKeyThatIsNoGroupsHidesNoPausedGroup(t *testing.T) {
	st := memstore.New()
	st.Put(inspect.ControlKey(inspect.ControlKey("x")), []byte("what is this"))
	control, err := leader.NewControlWithStore(st, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if _, err := control.File(t.Context(), leader.Request{Op: leader.OpPause, Group: "reports"}); err != nil {
		t.Fatal(err)
	}
	e := examinationOf(Command{Target: app.Target{Timeout: time.Minute}})
	e.paused(t.Context(), st)
	if len(e.findings) != 1 || e.findings[0].Status != finding.Warn {
		t.Errorf("%+v", e.findings)
	}
}
