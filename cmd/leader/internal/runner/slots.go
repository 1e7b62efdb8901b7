package runner

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// maxSlots bounds the elections that one program takes part in.
const maxSlots = 1000

// A seat is one election that leader run takes part in.
type seat struct {
	e     leader.Election
	group string
	slot  int // from 1; 0 without --slots
}

// A contest is all elections that leader run takes part in.
type contest interface {
	Start(ctx context.Context) error
	StopWithContext(ctx context.Context, opts leader.StopOptions) error
}

// groups are those of the seats.
func (c Command) groups() []string {
	if c.Slots <= 1 {
		return []string{c.Group}
	}
	var all []string
	for slot := range c.Slots {
		all = append(all, fmt.Sprintf("%s.%d", c.Group, slot+1))
	}
	return all
}

// stand takes the seats, without starting an election. Of several, a
// RoleManager sees to it that one is led at the most.
func (c Command) stand(s *app.Session, cfg leader.ElectionConfig) (contest, []*seat, error) {
	if c.Slots <= 1 {
		e, err := c.Election(s, cfg)
		return e, []*seat{{e: e, group: c.Group}}, err
	}
	groups := c.groups()
	m, err := c.RoleManager(s, cfg, groups)
	if err != nil {
		return nil, nil, err
	}
	var seats []*seat
	for i, group := range groups {
		seats = append(seats, &seat{e: m.Election(group), group: group, slot: i + 1})
	}
	return m, seats, nil
}

// twin returns the slot in which another process leads under the name of this
// one, and keeps its lease, or 0. A record that an earlier process of this host
// left behind is waited for until its lease has run out.
func twin(ctx context.Context, st store.Store, id string, mine *seat, seats []*seat) int {
	for _, s := range seats {
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

// keys returns the bucket as a store of the keys of these groups alone.
func keys(s *app.Session) (store.Watcher, error) { return s.StoreOfKeys(natsstore.Options{}) }
