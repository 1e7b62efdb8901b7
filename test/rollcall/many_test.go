package rollcall_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// crowd answers in the place of that many candidates.
func crowd(t *testing.T, nc *nats.Conn, n int) {
	t.Helper()
	_, err := nc.Subscribe(rollcall.Subject(bucket, group), func(m *nats.Msg) {
		for i := range n {
			_ = nc.Publish(m.Reply, fmt.Appendf(nil, `{"format":1,"bucket":%q,"group":%q,"instance":"c%04d"}`, bucket, group, n-i)) // asked again
		}
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
}

// Whoever counts them would take a thousand for all.
func TestARollCallThatIsCutOffSaysSo(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1000, 1001} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			srv := natslab.Start(t)
			crowd(t, srv.Connect(t), n)
			asker := srv.Connect(t)
			// On a busy machine the answers may pause for too long.
			natslab.Eventually(t, "a thousand answers", func(ctx context.Context) error {
				all, err := rollcall.All(ctx, asker, bucket, group)
				switch more := errors.Is(err, nats.ErrMaxMessages); {
				case len(all) != 1000, more != (n > 1000), err != nil && !more:
					return errors.Join(fmt.Errorf("%d answers", len(all)), err)
				case !slices.IsSortedFunc(all, func(a, b rollcall.Candidate) int { return cmp.Compare(a.Instance, b.Instance) }):
					return errors.New("they are not in order")
				}
				return nil
			})
		})
	}
}
