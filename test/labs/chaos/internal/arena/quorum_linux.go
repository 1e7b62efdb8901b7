package arena

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Others starts the two other members of a quorum, of which the arena's servers
// are the first, and returns their URLs. No fault is done to them. The witness
// notes what the quorum shows.
func (a *Arena) Others() (urls []string) {
	conns := []*nats.Conn{a.admin}
	for range 2 {
		s := natslab.Start(a)
		nc := s.Connect(a)
		js := natslab.JetStream(a, nc)
		natslab.Eventually(a, "the bucket of another member", func(ctx context.Context) error {
			return natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: Bucket})
		})
		conns, urls = append(conns, nc), append(urls, s.URL())
	}
	var members []quorumstore.Member
	for i, nc := range conns {
		st, err := natsstore.New(nc, Bucket, natsstore.Options{})
		a.Check(err)
		a.Cleanup(st.Close)
		members = append(members, quorumstore.Member{Name: fmt.Sprint("m", i), Store: st})
	}
	q, err := quorumstore.New(members, quorumstore.Options{})
	a.Check(err)
	a.Cleanup(func() { _ = q.Close() })
	_, err = q.Watch(context.Background(), []string{Group}, func(e store.Entry) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.note(e.Revision, e.Value)
	})
	a.Check(err)
	return urls
}
