package read

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/rollcall"
)

// unanswered is a question that the server drops, as it does where the right to
// ask is missing.
func unanswered[T any](ctx context.Context, _ Group) (answer T, err error) {
	<-ctx.Done()
	return answer, ctx.Err()
}

func noHistory(ctx context.Context, _ string) []advisory.Advisory {
	<-ctx.Done()
	return nil
}

func TestWhoMayAskNobodyIsNotKeptWaitingForOneAfterTheOther(t *testing.T) {
	answered := source[stored]{func(context.Context, Group) (stored, error) {
		return stored{at: time.Now(), revision: 9}, nil
	}, new(atomic.Bool)}
	for name, record := range map[string]source[stored]{
		"but the records": answered, "at all": {unanswered[stored], new(atomic.Bool)},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &details{noHistory, record, source[rollcall.Candidate]{unanswered[rollcall.Candidate], new(atomic.Bool)}}
			groups := []Group{{Group: "a", Leader: "w", Term: 7}, {Group: "b", Leader: "w", Term: 8}}
			begin := time.Now()
			d.complete(t.Context(), ">", groups)
			if took := time.Since(begin); took > 1250*time.Millisecond {
				t.Errorf("%s: %v", name, took)
			}
			if name != "at all" && groups[0].Renewed.IsZero() {
				t.Errorf("%s: %+v", name, groups[0])
			}
		})
	}
}

func TestALeaderIsAskedForWhatNobodyElseKnows(t *testing.T) {
	began := time.Now().Add(-time.Hour).UTC()
	errNever := errors.New("asked")
	for name, c := range map[string]struct {
		history func(context.Context, string) []advisory.Advisory
		asked   bool
	}{
		"the history knows": {func(context.Context, string) []advisory.Advisory {
			return []advisory.Advisory{{Group: "a", Event: leader.EventPromoted, Term: 7, Time: began, Reason: leader.ReasonVacant}}
		}, false},
		"the history knows nothing":   {func(context.Context, string) []advisory.Advisory { return nil }, true},
		"the history does not answer": {noHistory, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Bool
			d := &details{
				c.history,
				source[stored]{func(context.Context, Group) (stored, error) { return stored{}, errNever }, new(atomic.Bool)},
				source[rollcall.Candidate]{func(context.Context, Group) (rollcall.Candidate, error) {
					asked.Store(true)
					return rollcall.Candidate{Since: began, Reason: leader.ReasonVacant}, nil
				}, new(atomic.Bool)},
			}
			groups := []Group{{Group: "a", Leader: "w", Term: 7}}
			d.complete(t.Context(), ">", groups)
			if asked.Load() != c.asked || !groups[0].Since.Equal(began) || groups[0].Reason != leader.ReasonVacant {
				t.Errorf("%s: asked %v, %+v", name, asked.Load(), groups[0])
			}
		})
	}
}
