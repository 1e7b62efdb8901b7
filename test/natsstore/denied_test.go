package natsstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The rights of a user who watches key g of bucket b.
const (
	mayAsk    = "$JS.API.STREAM.INFO.KV_b"
	mayMake   = "$JS.API.CONSUMER.CREATE.KV_b.*.$KV.b.g"
	mayRead   = "$JS.API.DIRECT.GET.KV_b.$KV.b.g"
	mayHear   = "leader.b.g"  // to subscribe to
	mayAnswer = "_INBOX_c.>"  // the answers to its questions come there
	mayOther  = "$KV.b.other" // an empty list would allow everything
)

// restricted returns a store of a user with these rights alone, and one of a
// user who may do everything. Without a subject to subscribe to, the user may
// subscribe to all.
func restricted(t *testing.T, foreignBucket bool, publish, subscribe []string) (s, admin *natsstore.Store) {
	t.Helper()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("c", append(publish, mayOther), subscribe)))
	root := srv.Connect(t, nats.UserInfo("admin", "admin"))
	if foreignBucket {
		natslab.KV(t, root, foreign("b"))
	} else {
		ensure(t, root, natsstore.BucketConfig{Bucket: "b"})
	}
	nc := srv.Connect(t, nats.UserInfo("c", "c"), nats.CustomInboxPrefix("_INBOX_c"))
	return open(t, nc, "b", natsstore.Options{}), open(t, root, "b", natsstore.Options{})
}

// A watch that lacks two rights hears of writes all the same, or says what is
// missing. The connection shows the latest denial alone, and a watch was silent
// for ever where that of a read hid the other, or was taken for that of a
// consumer.
func TestAWatchWithoutTwoOfItsRightsIsNotSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		foreign            bool
		publish, subscribe []string
		lacks              string // "": the next write is heard
	}{
		{"may make consumers", true, []string{mayMake}, nil, mayRead},
		{"may make consumers and hear answers", true, []string{mayMake}, []string{mayAnswer}, mayRead},
		{"may ask", true, []string{mayAsk}, []string{mayAnswer}, ""},
		{"may ask, republished", false, []string{mayAsk}, []string{mayAnswer}, mayHear},
		{"may ask and hear, republished", false, []string{mayAsk}, []string{mayAnswer, mayHear}, ""},
		{"may hear, republished", false, nil, []string{mayHear, mayAnswer}, ""},
		{"may hear but no answers, republished", false, nil, []string{mayHear}, ""},
		{"may hear nothing, republished", false, nil, []string{mayAnswer}, mayHear},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, admin := restricted(t, c.foreign, c.publish, c.subscribe)
			if c.lacks == "" && !c.foreign {
				h := listen(t, s, "g")
				h.revision(must(t, admin, store.Write{Key: "g", Value: []byte("v")}))
				return
			}
			stop, err := s.Watch(t.Context(), []string{"g"}, func(store.Entry) {})
			if err == nil {
				stop()
			}
			outcome(t, err, store.Permanent, c.lacks)
		})
	}
}

// A user may be granted some groups and not others. To be refused a consumer
// for one of those says nothing of the bucket: the watches of the others, on
// the same store, were taken off their consumers, and heard nothing more.
func TestAKeyThatIsDeniedLeavesTheOthersTheirConsumers(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string][]string{"consumer": {mayRead + "2"}, "read": {mayMake + "2"}, "both": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, admin := restricted(t, true, append([]string{mayMake, mayRead}, denied...), nil)
			h := listen(t, s, "g")
			var rev uint64
			for i := range 3 {
				_, err := s.Watch(natslab.Within(t), []string{"g2"}, func(store.Entry) {})
				outcome(t, err, store.Permanent, "$KV.b.g2")
				rev = must(t, admin, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i)})
				h.revision(rev)
			}
		})
	}
}

// Beyond the first four they share a consumer, whose refusal says nothing of
// others. Most were told nothing at all: the denials of the first to go on hid
// that of their question for the configuration.
func TestManyWatchesOfAUserWhoMayOnlyListenBeginAtOnce(t *testing.T) {
	t.Parallel()
	s, admin := restricted(t, false, nil, []string{"leader.b.*", mayAnswer})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			key := fmt.Sprintf("g%d", i)
			heard := make(chan store.Entry, 100)
			stop, err := s.Watch(t.Context(), []string{key}, func(e store.Entry) { heard <- e })
			if err != nil {
				t.Error(err)
				return
			}
			defer stop()
			rev, err := admin.CompareAndSwap(t.Context(), store.Write{Key: key, Value: []byte("v")})
			if err != nil {
				t.Error(err)
				return
			}
			for e := range heard {
				if e.Revision == rev {
					return
				}
			}
		})
	}
	all.Wait()
}
