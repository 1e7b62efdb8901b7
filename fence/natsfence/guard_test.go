package natsfence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// The test module tests the answers of real servers; this test covers the
// meaning of each answer.
func TestOnlyARefusalThatEndsTheMatterIsPermanent(t *testing.T) {
	for code, want := range map[jetstream.ErrorCode]error{
		10071: errMoved,
		10164: errInFlight,
		10158: errCopyInFlight,
		10008: store.ErrTransient,
		10023: store.ErrUnknown,
		10077: store.ErrUnknown,
		10054: store.ErrPermanent, // too large
	} {
		if got := classify(&jetstream.APIError{ErrorCode: code}); !errors.Is(got, want) {
			t.Errorf("%d: %v, want %v", code, got, want)
		}
	}
}

func TestPossiblyAppliedFailureIsReported(t *testing.T) {
	unknown := fmt.Errorf("%w: no answer", store.ErrUnknown)
	away, ended := fmt.Errorf("%w: away", store.ErrTransient), fmt.Errorf("%w: ended", store.ErrTransient)
	for _, c := range []struct {
		before, last error
		over         bool
		want         error
	}{
		{nil, away, false, away},
		{nil, ended, true, ended},
		{errInFlight, away, false, away},
		{away, ended, true, away},
		{unknown, away, false, unknown},
		{unknown, ended, true, unknown},
		{errInFlight, unknown, false, unknown},
		{away, unknown, true, unknown},
	} {
		if got := telling(c.before, c.last, c.over); !errors.Is(got, c.want) {
			t.Errorf("%v, and then %v (ended: %v): %v", c.before, c.last, c.over, got)
		}
	}
}
