package redisstore

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// silence is how long a subscription may hear nothing before the server is
// asked whether it is there, and again before it counts as lost.
const silence = 3 * time.Second

// Follow implements [feed.Follower] by subscriptions to the channels of the
// keys that are watched, and for patterns to the channels of all keys: that is
// one pattern, since Redis compares patterns with a user's rights to the
// letter. The channel that is the prefix alone, on which nothing is published,
// is always among them.
func (s source) Follow(ctx context.Context, news *feed.News) error {
	sub := s.rdb.Subscribe(ctx)
	end := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer end()
	defer sub.Close() //nolint:errcheck // it is the end, and there may have been one
	f := &follower{source: s, news: news, sub: sub, has: make(map[string]struct{}), done: make(chan struct{})}
	others, err := f.adjust(ctx)
	if err != nil {
		return readError("no news", err)
	}
	f.awaited = len(f.has)
	if f.wide {
		f.awaited++
	}
	attended := make(chan struct{})
	go func() {
		defer close(attended)
		defer sub.Close() //nolint:errcheck // so that listen ends
		_ = guarded(ctx, func(ctx context.Context) error { return f.attend(ctx, others) })
	}()
	err = guarded(ctx, func(context.Context) error { return f.listen() })
	close(f.done)
	_ = sub.Close()
	<-attended
	return readError("no news", err)
}

// A follower is one subscription. Its goroutine listen receives, and its
// goroutine attend subscribes and asks.
type follower struct {
	source
	news  *feed.News
	sub   *redis.PubSub
	heard atomic.Uint64 // messages and answers
	done  chan struct{} // closed when nobody listens any more

	has  map[string]struct{} // the channels; of attend
	wide bool                // there are patterns; of attend

	awaited int // confirmations until the news begin; of listen
}

// adjust subscribes to the watched names alone. It returns a channel that is
// closed when other names are watched.
func (f *follower) adjust(ctx context.Context) (others <-chan struct{}, err error) {
	keys, patterns, others := f.news.Wanted()
	wanted := map[string]struct{}{f.channel(""): {}}
	for _, key := range keys {
		wanted[f.channel(key)] = struct{}{}
	}
	more := missing(wanted, f.has)
	fewer := missing(f.has, wanted)
	f.has = wanted
	if len(more) > 0 {
		err = f.sub.Subscribe(ctx, more...)
	}
	if len(fewer) > 0 && err == nil {
		err = f.sub.Unsubscribe(ctx, fewer...)
	}
	if wide := len(patterns) > 0; wide != f.wide && err == nil {
		change := f.sub.PUnsubscribe
		if wide {
			change = f.sub.PSubscribe
		}
		f.wide = wide
		err = change(ctx, f.opts.Prefix+"*")
	}
	return others, err
}

// missing returns what is in all and not in some.
func missing(all, some map[string]struct{}) (names []string) {
	for name := range all {
		if _, is := some[name]; !is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// attend subscribes to what else is watched, and asks after a server that is
// silent, until nobody listens.
func (f *follower) attend(ctx context.Context, others <-chan struct{}) error {
	tick := time.NewTicker(silence)
	defer tick.Stop()
	before, asked := f.heard.Load(), false
	for {
		var err error
		select {
		case <-f.done:
			return nil
		case <-others:
			others, err = f.adjust(ctx)
		case <-tick.C:
			now := f.heard.Load()
			silent := now == before
			if silent && asked {
				return nil
			}
			if before, asked = now, silent; silent {
				err = f.sub.Ping(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// listen passes the news on until the subscription breaks.
func (f *follower) listen() error {
	// With a context that is done the client makes no other connection when
	// this one breaks: messages of the server are lost meanwhile, and have to
	// be read.
	lost, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		message, err := f.sub.ReceiveTimeout(lost, 0)
		if err != nil {
			return err
		}
		f.heard.Add(1)
		switch m := message.(type) {
		case *redis.Subscription:
			f.confirmed(m)
		case *redis.Message:
			f.tell(m)
		}
	}
}

// confirmed takes in that the server has subscribed us.
func (f *follower) confirmed(m *redis.Subscription) {
	switch {
	case m.Kind != "subscribe" && m.Kind != "psubscribe":
	case f.awaited > 1:
		f.awaited--
	case f.awaited == 1, m.Kind == "psubscribe": // all is to be read
		f.awaited = 0
		f.news.Begun()
	default:
		f.news.Changed(f.keyOf(m.Channel))
	}
}

// tell handles a message. If it contains no valid record, or a record that the
// replicas may not have, the key is read.
func (f *follower) tell(m *redis.Message) {
	key := f.keyOf(m.Channel)
	e, ok := parse(key, m.Payload)
	switch {
	case !store.ValidKey(key):
	case ok && f.opts.Wait == 0:
		f.news.Entry(e)
	default:
		f.news.Changed(key)
	}
}
