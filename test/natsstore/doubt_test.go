package natsstore_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// An impostor answers in the place of a bucket's stream: as the replica that
// serves reads, and as the leader that reports the stream's state. So the one
// can lag behind the other for as long as a test wants.
type impostor struct {
	nc      *nats.Conn
	created time.Time

	mu      sync.Mutex
	replica uint64        // revision of key team.g that reads show; 0: none
	last    uint64        // the leader's last sequence
	erased  bool          // the leader does not know the key
	asked   chan struct{} // one for each read
}

func impersonate(t *testing.T, nc *nats.Conn) *impostor {
	t.Helper()
	i := &impostor{nc: nc, created: time.Now(), asked: make(chan struct{}, 1<<16)}
	for subject, answer := range map[string]nats.MsgHandler{
		"$JS.API.DIRECT.GET.KV_b": i.read, "$JS.API.STREAM.INFO.KV_b": i.info, "$KV.b.team.g": i.refuse,
	} {
		sub, err := nc.Subscribe(subject, answer)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	return i
}

func (i *impostor) stands(replica, last uint64, erased bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.replica, i.last, i.erased = replica, last, erased
}

func record(subject string, rev uint64) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header.Set("Nats-Stream", "KV_b")
	m.Header.Set("Nats-Subject", "$KV.b.team.g")
	m.Header.Set("Nats-Sequence", strconv.FormatUint(rev, 10))
	m.Data = []byte("v")
	return m
}

func (i *impostor) read(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	end := nats.NewMsg(m.Reply)
	if i.replica == 0 {
		end.Header.Set("Status", "404")
		end.Header.Set("Description", "No Results")
	} else {
		_ = i.nc.PublishMsg(record(m.Reply, i.replica))
		end.Header.Set("Status", "204")
		end.Header.Set("Nats-Num-Pending", "0")
	}
	_ = i.nc.PublishMsg(end)
	i.asked <- struct{}{}
}

func (i *impostor) info(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	info := jetstream.StreamInfo{Created: i.created, Config: jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, AllowDirect: true, MaxMsgsPerSubject: 1,
		RePublish: &jetstream.RePublish{Source: "$KV.b.>", Destination: "leader.b.>"},
	}}
	info.State.LastSeq = i.last
	if !i.erased {
		info.State.Subjects = map[string]uint64{"$KV.b.team.g": 1}
	}
	body, _ := json.Marshal(info) //nolint:errchkjson // of plain fields
	_ = m.Respond(body)
}

// refuse answers a write as the leader of a stream that is at another sequence.
func (i *impostor) refuse(m *nats.Msg) {
	_ = m.Respond([]byte(`{"stream":"KV_b","error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}`))
}

// reads waits for so many reads from now on.
func (i *impostor) reads(t *testing.T, n int) {
	t.Helper()
	for len(i.asked) > 0 {
		<-i.asked
	}
	limit := natslab.Within(t)
	for range n {
		select {
		case <-i.asked:
		case <-limit.Done():
			t.Fatal("the pattern is not read again")
		}
	}
}

// doubted is a watch of a pattern that knows of revision 9, and whose reads
// return the impostor's answers.
func doubted(t *testing.T) (*impostor, *wideHeard, *natsstore.Store) {
	t.Helper()
	nc := natslab.Start(t, natslab.WithoutJetStream()).Connect(t)
	i := impersonate(t, nc)
	i.stands(5, 5, false)
	s := open(t, nc, "b", natsstore.Options{})
	h := listenWide(t, s, "team.*")
	h.complete()
	h.seen("team.g", 5)
	i.stands(5, 9, false)
	if err := nc.PublishMsg(record("leader.b.team.g", 9)); err != nil {
		t.Fatal(err)
	}
	h.seen("team.g", 9)
	return i, h, s
}

// conflict has the pattern read again.
func conflict(t *testing.T, s store.Store) {
	t.Helper()
	_, err := s.CompareAndSwap(natslab.Within(t), store.Write{Key: "team.g", Expected: 7})
	trial.Outcome(t, err, store.Conflict)
}

func TestReplicaThatLagsIsNotBelievedByAPatternWatchHoweverLong(t *testing.T) {
	t.Parallel()
	i, h, s := doubted(t)
	conflict(t, s)
	i.reads(t, 8)
	i.stands(10, 10, false)
	h.until("the replica's next record", func(e store.Entry) bool {
		if e.Revision < 9 {
			t.Errorf("delivered revision %d after 9", e.Revision)
		}
		return e.Revision == 10
	})
}

func TestStateThatTheLeaderDoesNotContradictIsBelievedByAPatternWatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		replica, last uint64
		erased        bool
	}{{5, 5, false}, {0, 9, true}, {0, 0, true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			i, h, s := doubted(t)
			i.stands(c.replica, c.last, c.erased)
			conflict(t, s)
			h.seen("team.g", c.replica)
		})
	}
}
