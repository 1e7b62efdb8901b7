package demo

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/store"
)

// A member is a server of the demo's quorum.
type member struct {
	app.Server

	name string
	down bool
	last app.Member // what it was seen to hold; without a state before that
}

// members are the servers of a quorum.
type members []*member

// serveMembers starts the members of a quorum. If it fails, some of them may
// have started.
func serveMembers(kit app.Kit) (ms members, err error) {
	for _, name := range []string{"a", "b", "c"} {
		srv, err := kit.Serve(0)
		if err != nil {
			return ms, err
		}
		ms = append(ms, &member{Server: srv, name: name})
	}
	return ms, nil
}

// url returns the quorum's URL, with a query after each member's bucket.
func (ms members) url(bucket, query string) string {
	var parts []string
	for _, m := range ms {
		parts = append(parts, "m="+m.name+"="+m.URL()+"/"+bucket+query)
	}
	return "quorum://?" + strings.Join(parts, "&")
}

// lookEvery is the time between two looks at what the members hold.
const lookEvery = 250 * time.Millisecond

// watch looks at what the members hold of a key until stop is called, and posts
// what is to be done with that.
func (ms members) watch(st store.Store, key string, post func(func())) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			// Only a store that is closed returns an error.
			held, _ := app.Members(ctx, st, key)
			post(func() {
				for i, m := range held {
					ms[i].last = m
				}
			})
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-stopped }
}

// first returns the first member that is down or is not, or nil.
func (ms members) first(down bool) *member {
	i := slices.IndexFunc(ms, func(m *member) bool { return m.down == down })
	if i < 0 {
		return nil
	}
	return ms[i]
}
