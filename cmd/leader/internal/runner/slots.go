package runner

import (
	"context"
	"maps"
	"strconv"
	"sync/atomic"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// maxSlots bounds the elections that one program takes part in. Each has a
// record that is watched and, once led, renewed.
const maxSlots = 1000

// A candidacy is one election that leader run takes part in.
type candidacy struct {
	e     leader.Election
	group string
	slot  int         // from 1; 0 without --slots
	term  leader.Term // its latest; the callbacks of an election, which set and read it, follow each other
}

// A contest is all elections that leader run takes part in. It is what an
// Election and a RoleManager have in common.
type contest interface {
	Start(ctx context.Context) error
	StopWithContext(ctx context.Context, opts leader.StopOptions) error
}

// slotsKey is the key of a record's Meta that has the --slots of its writer.
const slotsKey = "slots"

// withSlots returns the Meta of the records of a host that takes part in several
// slots.
func withSlots(meta map[string]string, slots int) map[string]string {
	if slots < 2 {
		return meta
	}
	all := map[string]string{slotsKey: strconv.Itoa(slots)}
	maps.Copy(all, meta)
	return all
}

// twin returns the slot in which another process leads under the name of this
// one, and keeps its lease, or 0. A record that an earlier process of this host
// left behind is waited for until its lease has run out. Only renewals
// distinguish the two.
func twin(ctx context.Context, st store.Store, id string, mine *candidacy, candidacies []*candidacy) int {
	for _, s := range candidacies {
		if s != mine && renews(ctx, st, id, s.group) {
			return s.slot
		}
	}
	return 0
}

// renews reports whether a candidate renews its record of a group, and returns
// when that is known.
func renews(ctx context.Context, st store.Store, id, group string) bool {
	entry, err := st.Get(ctx, group)
	if err != nil || inspect.ReadRecord(entry).ID != id {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lives atomic.Bool
	// An error is that nothing can be watched, and nothing is known then.
	_ = leader.ObserveFuncWithStore(ctx, st, group, leader.Observer{
		Leader: func(info leader.LeaderInfo) {
			if info.ID != id {
				cancel()
			}
		},
		Renewed: func(leader.LeaderInfo) { lives.Store(true); cancel() },
	})
	return lives.Load()
}

// keys returns the bucket as a store of the keys of these groups alone. The
// user of a candidate need not have the right to watch the whole bucket.
func keys(s *app.Session) (store.Watcher, error) { return s.StoreOfKeys(natsstore.Options{}) }
