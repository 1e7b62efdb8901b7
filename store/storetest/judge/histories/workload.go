package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// callTime bounds one call of the workload while faults happen: what takes
// longer is of unknown outcome, which is what the faults are for.
const callTime = 500 * time.Millisecond

// Contend has every client write the keys over and over, until ctx is done. A
// client expects what it knows: by its own acknowledgement, or by a read, which
// may be stale; and now and then something older.
func Contend(ctx context.Context, clients []*Client, keys []string, seed uint64) {
	contend(ctx, clients, keys, seed, callTime)
}

// contend is Contend with so much time for one call.
func contend(ctx context.Context, clients []*Client, keys []string, seed uint64, each time.Duration) {
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			known := map[string]uint64{}
			for ctx.Err() == nil {
				c.turn(ctx, keys[r.IntN(len(keys))], known, r, each)
			}
		})
	}
	all.Wait()
}

func (c *Client) turn(ctx context.Context, key string, known map[string]uint64, r *rand.Rand, each time.Duration) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), each)
	defer cancel()
	if r.IntN(3) > 0 {
		if e, err := c.Get(call, key); err == nil && r.IntN(10) > 0 {
			known[key] = e.Revision
		}
	}
	if rev, outcome := c.Swap(call, key, known[key]); outcome == store.OK {
		known[key] = rev
	}
	// A pause, so that a history has time for its faults before it has too many
	// calls to be judged soon.
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(r.IntN(int(10 * time.Millisecond)))):
	}
}

// Settle writes each key again, by one client without faults, until that is
// acknowledged: only a successful compare-and-swap proves a register's
// revision.
func Settle(ctx context.Context, c *Client, keys []string) error {
	for _, key := range keys {
		for {
			e, err := c.Get(ctx, key)
			if err == nil {
				if _, outcome := c.Swap(ctx, key, e.Revision); outcome == store.OK {
					break
				}
			}
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}
