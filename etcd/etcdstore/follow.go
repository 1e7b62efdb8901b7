package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// A stream that brings nothing for so long is asked whether it lives, and
// counts as lost if it brings nothing for as long again.
const silence = 2 * time.Second

// errSilent ends a stream that answers no more.
var errSilent = errors.New("the stream of changes is silent")

// Follow implements [feed.Follower] by one stream of changes, which asks for
// the changes of each register from now on: earlier ones are read. The client's
// own Watcher would hide interruptions and resume from the last revision; after
// one the [feed.Feed] reads everything, so that no revision has to be kept, and
// none can have been compacted.
func (s source) Follow(ctx context.Context, news *feed.News) error {
	// The server ends the stream when it loses its leader. The result is judged
	// by the given context: own ends with the stream.
	own, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	stream, err := s.watch.Watch(own)
	if err != nil {
		cancel(nil)
		return s.readError(ctx, "watching", err)
	}
	f := &follower{
		s: s, news: news, stream: stream, ids: make(map[string]int64),
		requests: make(chan *pb.WatchRequest), answers: make(chan *pb.WatchResponse),
	}
	var both sync.WaitGroup
	both.Go(func() { f.send(own) })
	both.Go(func() { cancel(f.receive(own)) }) // which ends follow
	err = f.follow(own)
	cancel(nil)
	both.Wait()
	s.hurry(err)
	return s.readError(ctx, "watching", err)
}

// A follower is one stream of changes.
type follower struct {
	s        source
	news     *feed.News
	stream   pb.Watch_WatchClient
	requests chan *pb.WatchRequest
	answers  chan *pb.WatchResponse

	unsent []*pb.WatchRequest // requests, in order
	ids    map[string]int64   // of the watchers, by key or pattern; pending for one that is being made
	asked  []string           // the names of the watchers that are being made, in order
	begun  bool
}

// pending is the id of a watcher that is being made.
const pending = -1

// send sends the requests of follow, until the stream ends. A server whose
// answers are not read stops to read. So follow, which takes the answers, must
// not wait for a request to be sent: thousands of keys would wait for ever.
func (f *follower) send(ctx context.Context) {
	for {
		select {
		case request := <-f.requests:
			if f.stream.Send(request) != nil {
				return // the stream has ended, and receive gets the reason
			}
		case <-ctx.Done():
			return
		}
	}
}

// receive hands the answers to follow, until the stream ends.
func (f *follower) receive(ctx context.Context) error {
	for {
		answer, err := f.stream.Recv()
		if err != nil {
			return err
		}
		select {
		case f.answers <- answer:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow asks for what is wanted, and takes in the answers.
func (f *follower) follow(ctx context.Context) error {
	silent := time.NewTimer(2 * silence)
	defer silent.Stop()
	probe := time.NewTicker(silence)
	defer probe.Stop()
	others := f.want()
	for {
		var requests chan<- *pb.WatchRequest // nil while there are none
		var next *pb.WatchRequest
		if len(f.unsent) > 0 {
			requests, next = f.requests, f.unsent[0]
		}
		select {
		case <-others:
			others = f.want()
		case requests <- next:
			f.unsent = f.unsent[1:]
		case answer := <-f.answers:
			silent.Reset(2 * silence)
			probe.Reset(silence)
			if err := f.take(answer); err != nil {
				return err
			}
		case <-probe.C:
			if len(f.ids) == 0 {
				// It cannot answer while it has nothing to watch, which does
				// not mean that it is dead.
				silent.Reset(2 * silence)
				continue
			}
			f.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
		case <-silent.C:
			return errSilent
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask has the request sent after those that were made before.
func (f *follower) ask(request *pb.WatchRequest) { f.unsent = append(f.unsent, request) }

// want makes a watcher for each name that is wanted, and ends the others. It
// returns the channel that is closed when other names are wanted.
func (f *follower) want() (others <-chan struct{}) {
	keys, patterns, others := f.news.Wanted()
	wanted := make(map[string]struct{}, len(keys)+len(patterns))
	for _, name := range append(keys, patterns...) {
		wanted[name] = struct{}{}
		if _, is := f.ids[name]; is {
			continue
		}
		from, to := f.s.names.wide(name)
		request := &pb.WatchCreateRequest{Key: []byte(from), RangeEnd: []byte(to)}
		f.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: request}})
		f.ids[name] = pending
		f.asked = append(f.asked, name)
	}
	for name, id := range f.ids {
		if _, is := wanted[name]; is || id == pending {
			continue
		}
		delete(f.ids, name)
		request := &pb.WatchCancelRequest{WatchId: id}
		f.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: request}})
	}
	if len(f.asked) == 0 {
		f.start()
	}
	return others
}

// start reports that no change is missed from now on.
func (f *follower) start() {
	if !f.begun {
		f.begun = true
		f.news.Begun()
	}
}

// take takes in one answer.
func (f *follower) take(answer *pb.WatchResponse) error {
	switch {
	case answer.Created:
		return f.created(answer)
	case answer.Canceled:
		return f.canceled(answer)
	default:
		f.events(answer.Events)
		return nil
	}
}

// created notes that a watcher was made: the oldest of those that were asked
// for.
func (f *follower) created(answer *pb.WatchResponse) error {
	if answer.Canceled || len(f.asked) == 0 {
		return fmt.Errorf("a watcher was refused: %w", reason(answer.CancelReason))
	}
	name := f.asked[0]
	f.asked = f.asked[1:]
	f.ids[name] = answer.WatchId
	switch {
	case !f.begun && len(f.asked) == 0:
		f.start()
	case f.begun && store.Wild(name):
		f.news.Begun() // reads the pattern once more
	case f.begun:
		f.news.Changed(name)
	}
	return nil
}

// canceled notes that a watcher has ended: ours, or by the server's doing.
func (f *follower) canceled(answer *pb.WatchResponse) error {
	for _, id := range f.ids {
		if id == answer.WatchId {
			return fmt.Errorf("the server ended a watcher (compacted at revision %d): %w", answer.CompactRevision, reason(answer.CancelReason))
		}
	}
	return nil
}

// reason is the error for which the server refuses or ends a watcher. It sends
// the text alone (server/etcdserver/api/v3rpc/watch.go).
func reason(text string) error {
	for _, known := range []error{
		rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCUserEmpty,
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision,
	} {
		if text == known.Error() {
			return rpctypes.Error(known)
		}
	}
	return errors.New(text)
}

// events takes in what changed. A register that changes into a tombstone or out
// of it has two events of one revision, one of which is a deletion.
func (f *follower) events(events []*mvccpb.Event) {
	written := make(map[string]int64, len(events)) // the last write to each register
	for _, ev := range events {
		if key, tombstone, ok := f.s.names.register(ev.Kv.Key); ok && ev.Type == mvccpb.Event_PUT {
			written[key] = ev.Kv.ModRevision
			f.news.Entry(entry(key, tombstone, ev.Kv))
		}
	}
	for _, ev := range events {
		if key, _, ok := f.s.names.register(ev.Kv.Key); ok && ev.Type == mvccpb.Event_DELETE && written[key] < ev.Kv.ModRevision {
			f.news.Changed(key)
		}
	}
}
