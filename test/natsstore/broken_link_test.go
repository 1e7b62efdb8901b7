package natsstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// awaitNoQuestions waits until a connection has sent nothing for twice as long
// as the store waits at a beginning before it reads the current state once
// more.
func awaitNoQuestions(t *testing.T, nc *nats.Conn) {
	t.Helper()
	sent, since := nc.Stats().OutMsgs, time.Now()
	natslab.Eventually(t, "a second without a question", func(context.Context) error {
		if n := nc.Stats().OutMsgs; n != sent {
			sent, since = n, time.Now()
		}
		if time.Since(since) < time.Second {
			return errors.New("there was one")
		}
		return nil
	})
}

// Messages that a server publishes while the link to a leaf node is broken are
// lost to that node's clients, whose connections stay open, so they notice no
// interruption. A renewal is published again; a pause is not. Watches never
// delivered it, and the group's leader went on.
func TestUpdatesLostByABrokenLinkAreDelivered(t *testing.T) {
	t.Parallel()
	hub := natslab.Start(t, natslab.Domain("hub"), natslab.AcceptLeaves())
	link := natslab.NewRelay(t, hub.LeafAddr())
	leaf := natslab.StartLeaf(t, link.Addr(), natslab.Domain("leaf"))
	nc := hub.Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	writer := open(t, nc, "b", natsstore.Options{})
	far, begun := leaf.Connect(t), time.Now()
	keys := listen(t, open(t, far, "b", natsstore.Options{Domain: "hub"}), "g", "_ctl.g")
	all := listenWide(t, open(t, far, "b", natsstore.Options{Domain: "hub"}), ">")

	rev := must(t, writer, store.Write{Key: "g", Value: []byte("held")})
	for _, h := range []*heard{keys, all.heard} {
		h.until("the record", func(e store.Entry) bool { return e.Revision == rev })
	}
	awaitNoQuestions(t, far)
	link.Cut()
	natslab.Eventually(t, "the link is broken", func(context.Context) error {
		if hub.Inner().NumLeafNodes() > 0 {
			return errors.New("it stands")
		}
		return nil
	})
	pause := must(t, writer, store.Write{Key: "_ctl.g", Value: []byte("paused")})
	link.Resume()
	leaf.AwaitHub()
	// Events of other keys must not count as events of this one.
	known := false
	natslab.Eventually(t, "a renewal that is heard", func(context.Context) error {
		rev = must(t, writer, store.Write{Key: "g", Expected: rev, Value: []byte("renewed")})
		for len(keys.entries) > 0 {
			switch e := <-keys.entries; e.Revision {
			case rev:
				return nil
			case pause:
				// A key is read when it has been silent for that long. On a
				// busy machine this lasts longer.
				if known = true; time.Since(begun) < 30*time.Second {
					t.Fatal("the pause came by the link: the test tests nothing")
				}
			}
		}
		return errors.New("none")
	})
	for what, h := range map[string]*heard{"the pause, by its key": keys, "the pause, by a pattern": all.heard} {
		if h != keys || !known {
			h.until(what, func(e store.Entry) bool { return e.Revision == pause })
		}
	}
	if n := far.Stats().Reconnects; n != 0 {
		t.Errorf("%d reconnections: the test tests nothing", n)
	}
}
