package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// unreadable is a store that reports no more than what is written from now on.
type unreadable struct{ *memstore.Store }

func (unreadable) WatchPattern(_ context.Context, pattern string, _ func(store.Entry), present func(error)) (func(), error) {
	present(fmt.Errorf("%w: no right to read %s", store.ErrPermanent, pattern))
	return func() {}, nil
}

// A list watches both, and either denial may be the first.
func TestDeniedControlRecordsDoNotEndAList(t *testing.T) {
	var denied, ended error
	h := &hearing{
		Reporting: app.Reporting{PatternWatcher: unreadable{memstore.New()}}, stderr: io.Discard,
		end: func(err error) { ended = err },
	}
	_, err := h.WatchPattern(t.Context(), ">", nil, func(err error) { denied = err })
	_, errControl := h.WatchPattern(t.Context(), inspect.ControlKey(">"), nil, func(error) {})
	if err := errors.Join(err, errControl); err != nil {
		t.Fatal(err)
	}
	h.failed(denied, false)
	if ended != nil {
		t.Errorf("ended with %v", ended)
	}
}
