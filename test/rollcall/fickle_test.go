package rollcall_test

import (
	"errors"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A fickle election panics when it is asked.
type fickle struct{ leader.Election }

func (fickle) Status() leader.ElectionStatus { panic("boom") }

// An election is asked in a goroutine of the connection's, where a panic would
// take the program. It asks the store in turn, which may be of another's
// making.
func TestAnElectionThatPanicsWhenAskedIsSilent(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	stop, err := rollcall.Answer(nc, leader.ElectionConfig{Bucket: bucket, Group: group}, fickle{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if all, err := rollcall.All(natslab.Within(t), nc, bucket, group); !errors.Is(err, rollcall.ErrNoAnswer) || len(all) != 0 {
		t.Errorf("%v: %+v", err, all)
	}
}
