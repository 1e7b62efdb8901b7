package consulstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/feed"
)

const (
	// wait is how long a blocking query waits for a change. Consul adds up to a
	// sixteenth to it.
	wait = 3 * time.Second
	// late is how much later its answer may come before the query counts as
	// lost.
	late = 2 * time.Second
	// most is how many blocking queries wait at a time. Each takes a connection
	// of the agent, which allows a client 200 by default
	// (limits.http_max_conns_per_client). Where more names are watched, one
	// query asks for all registers.
	most = 48
	// each is how much longer a list of registers is not asked for again, for
	// each register that it has: any change brings all of it.
	each = time.Second / 8000
)

// everything is the name of the query for all registers.
const everything = ">"

// errSilent ends a query that is not answered.
var errSilent = errors.New("a blocking query was not answered")

// Follow implements [feed.Follower] by a blocking query for each register and
// each pattern.
func (s source) Follow(ctx context.Context, news *feed.News) error {
	// Without names there are no queries, and no end of them.
	if err := s.answers(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f := &follower{s: s, news: news, queries: make(map[string]context.CancelFunc), names: make(map[string]struct{}), unasked: make(map[string]struct{})}
	f.end = cancel
	for ctx.Err() == nil {
		others := f.want(ctx)
		select {
		case <-others:
		case <-ctx.Done():
		}
	}
	cancel(nil)
	f.running.Wait()
	return s.readError(ctx, "watching", context.Cause(ctx))
}

// answers reports whether the servers have a leader, within the time that a
// query has.
func (s source) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait+late, errSilent)
	defer cancel()
	return s.hasLeader(ctx)
}

// A follower is the queries of one call of Follow.
type follower struct {
	s       source
	news    *feed.News
	end     context.CancelCauseFunc
	running sync.WaitGroup
	queries map[string]context.CancelFunc

	mu      sync.Mutex
	names   map[string]struct{} // that are wanted
	unasked map[string]struct{} // the queries that were not answered yet
	begun   bool
}

// want begins a query for each name that is wanted, and ends the others. It
// returns the channel that is closed when other names are wanted.
func (f *follower) want(ctx context.Context) (others <-chan struct{}) {
	keys, patterns, others := f.news.Wanted()
	names := slices.Concat(keys, patterns)
	queries := names
	if len(names) > most {
		queries = []string{everything}
	}
	wanted := make(map[string]struct{}, len(queries))
	for _, q := range queries {
		wanted[q] = struct{}{}
	}
	f.drop(wanted)
	f.rename(names, wanted)
	for q := range wanted {
		if _, is := f.queries[q]; is {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		f.queries[q] = cancel
		f.running.Go(func() {
			if err := f.query(own, q); err != nil && own.Err() == nil {
				f.end(err)
			}
		})
	}
	return others
}

// drop ends the queries that are not wanted.
func (f *follower) drop(wanted map[string]struct{}) {
	for q, cancel := range f.queries {
		if _, is := wanted[q]; !is {
			cancel()
			delete(f.queries, q)
		}
	}
}

// rename notes what is wanted, and which queries are new. Of a name that a
// running query brings already nothing new is missed.
func (f *follower) rename(names []string, wanted map[string]struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q := range f.unasked {
		if _, is := wanted[q]; !is {
			delete(f.unasked, q)
		}
	}
	for q := range wanted {
		if _, is := f.queries[q]; !is {
			f.unasked[q] = struct{}{}
		}
	}
	before := f.names
	f.names = make(map[string]struct{}, len(names))
	for _, name := range names {
		f.names[name] = struct{}{}
		_, is := before[name]
		_, of := wanted[name]
		if !is && !of && f.begun && len(f.unasked) == 0 {
			f.current(name)
		}
	}
	f.start()
}

// current has the Feed read a name of which nothing new is missed from now on.
func (f *follower) current(name string) {
	if store.Wild(name) {
		f.news.Begun() // reads the pattern once more
	} else {
		f.news.Changed(name)
	}
}

// start reports that no change is missed from now on, once all queries were
// answered. f.mu is held.
func (f *follower) start() {
	if !f.begun && len(f.unasked) == 0 {
		f.begun = true
		f.news.Begun()
	}
}

// answered notes the first answer to a query.
func (f *follower) answered(q string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, is := f.unasked[q]; !is {
		return // nobody wants it any more
	}
	delete(f.unasked, q)
	switch {
	case !f.begun:
		f.start()
	case q == everything:
		f.news.Begun()
	default:
		f.current(q)
	}
}

// query asks again and again.
func (f *follower) query(ctx context.Context, q string) error {
	known := make(map[string]uint64) // the registers' revisions
	for index := uint64(0); ; {
		entries, at, err := f.ask(ctx, q, index)
		if err != nil {
			return err
		}
		f.tell(known, entries)
		if index == 0 {
			f.answered(q)
		}
		// An index that goes back comes from a restored snapshot.
		if at < index {
			at = 0
		}
		index = at
		if !store.Wild(q) && index != 0 {
			continue
		}
		pause := min(time.Duration(len(entries))*each, time.Second)
		if index == 0 {
			pause = max(pause, 10*time.Millisecond)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask asks once.
func (f *follower) ask(ctx context.Context, q string, index uint64) ([]store.Entry, uint64, error) {
	limit := f.s.opts.Timeout
	if index != 0 {
		limit = wait + wait/16 + late
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	defer cancel()
	entries, at, err := f.s.ask(q, waiting(ctx, index, wait))
	if err != nil {
		return nil, 0, base.Because(ctx, err)
	}
	return entries, at, nil
}

// tell delivers the result of a query.
func (f *follower) tell(known map[string]uint64, entries []store.Entry) {
	found := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		found[e.Key] = struct{}{}
		before := known[e.Key]
		known[e.Key] = e.Revision
		switch {
		case e.Revision > before:
			f.news.Entry(e)
		case e.Revision < before:
			f.news.Changed(e.Key)
		}
	}
	for key := range known {
		if _, is := found[key]; !is {
			delete(known, key)
			f.news.Changed(key)
		}
	}
}
