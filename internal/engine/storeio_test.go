package engine

import (
	"testing"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A flicker is a store whose connection comes back while its state is asked for
// the first time.
type flicker struct {
	store.Store
	asked bool
	tell  func(store.ConnState)
}

func (f *flicker) OnConnState(tell func(store.ConnState)) (stop func()) {
	f.tell = tell
	return func() {}
}

func (f *flicker) ConnState() store.ConnState {
	if f.asked {
		return store.Connected
	}
	f.asked = true
	f.tell(store.Connected)
	return store.Disconnected
}

// Else a candidate would count as disconnected until the next interruption, and
// with a DisconnectGracePeriod lose each term as soon as it is won.
func TestConnectionThatReturnsDuringTheFirstLookIsNotMissed(t *testing.T) {
	e := New(&flicker{Store: memstore.New()}, testConfig())
	defer e.io.followConn()()
	messages, _, _ := e.inbox.take()
	if len(messages) == 0 || messages[len(messages)-1].event.Kind != machine.ConnUp {
		t.Errorf("the last news is not that the connection is up: %+v", messages)
	}
}
