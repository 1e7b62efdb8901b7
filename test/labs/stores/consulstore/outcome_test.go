package consulstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 1)
	node := cluster.Nodes[0]
	for name, judge := range map[string]func(*testing.T, *consullab.Node){
		"WriteUnderAnEndedContextIsNeverSent":      endedContext,
		"OfTwoEqualWritesOneWins":                  equalWrites,
		"AWriteThatChangesNothingIsNoSuccess":      nothingNew,
		"RepetitionByTheTransportIsNoConflict":     repeated,
		"AnswersAreTakenForWhatTheyProve":          answers,
		"WhatStandsInAnotherPrefixIsNotThere":      prefixes,
		"OneTransactionForEachWriteAndNothingElse": oneTransaction,
		"NamesThatAgentsWouldCleanAreKept":         oddNames,
	} {
		t.Run(name, func(t *testing.T) { judge(t, node) })
	}
	t.Run("AWriteOfAServerThatWasKilledMidwayIsUnknown", func(t *testing.T) {
		trial.KillsDuringAWrite(t, by(t, node.Addr, newPrefix()), node, cluster.Run)
	})
}

// by returns a store with that prefix over an agent's or a relay's address.
func by(tb testing.TB, addr, prefix string) *consulstore.Store {
	tb.Helper()
	return open(tb, consullab.Client(tb, addr, consullab.Root), consulstore.Options{Prefix: prefix})
}

// reads demands that the register comes to hold the value.
func reads(t *testing.T, s store.Store, key, value string) {
	t.Helper()
	natslab.Eventually(t, key+" reads "+value, func(context.Context) error {
		if e := trial.Get(t, s, key); string(e.Value) != value {
			return fmt.Errorf("%q", e.Value)
		}
		return nil
	})
}

func endedContext(t *testing.T, node *consullab.Node) {
	r := newRelay(t, node.Addr)
	s := by(t, r.addr, newPrefix())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := s.CompareAndSwap(ctx, store.Write{Key: "g"})
	trial.Outcome(t, err, store.Transient, "nothing was sent", "enough")
	_, err = s.Get(ctx, "g")
	trial.Outcome(t, err, store.Transient, "enough")
	if n := r.served("write") + r.served("read"); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// Consul takes a write that changes nothing for done, and gives it the index
// that is there: of two equal writes that expect the same index both succeed.
func equalWrites(t *testing.T, node *consullab.Node) {
	s := by(t, node.Addr, newPrefix())
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("same")})
	w := store.Write{Key: "g", Expected: rev, Value: []byte("same")}
	next := trial.Must(t, s, w)
	if next <= rev {
		t.Fatalf("a write over revision %d has revision %d", rev, next)
	}
	_, err := s.CompareAndSwap(trial.Within(t), w)
	trial.Outcome(t, err, store.Conflict)
	// This is what the safeguard is for. If it fails, Consul has learned, and
	// the safeguard is for nothing.
	kv := node.Client(t).KV()
	plain := s.Prefix() + "plain"
	if _, err := kv.Put(&api.KVPair{Key: plain, Value: []byte("same")}, nil); err != nil {
		t.Fatal(err)
	}
	pair, _, err := kv.Get(plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if won, _, err := kv.CAS(pair, nil); err != nil || !won {
			t.Errorf("the second of two equal writes is refused: %v, %v", won, err)
		}
	}
}

// Somebody may have written by hand exactly what a write would leave.
func nothingNew(t *testing.T, node *consullab.Node) {
	s := by(t, node.Addr, newPrefix())
	kv := node.Client(t).KV()
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	// The next write would have the flags of the register's next index, which
	// another client hits only by luck.
	for range 1000 {
		if _, err := kv.Put(&api.KVPair{Key: s.Prefix() + "g", Value: []byte("2"), Flags: (rev + 1) << 1}, nil); err != nil {
			t.Fatal(err)
		}
		e := trial.Get(t, s, "g")
		if e.Revision == rev+1 {
			_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: e.Revision, Value: []byte("2")})
			trial.Outcome(t, err, store.Transient, "already")
			return
		}
		rev = e.Revision
	}
	t.Fatal("the index was never hit")
}

// twice is a transport that sends each write again, as those do that repeat
// what failed, and returns the last answer.
type twice struct{ http.RoundTripper }

func (t twice) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPut {
		return t.RoundTripper.RoundTrip(request)
	}
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	again := request.Clone(request.Context())
	if again.Body, err = request.GetBody(); err != nil {
		return nil, err
	}
	return t.RoundTripper.RoundTrip(again)
}

func repeated(t *testing.T, node *consullab.Node) {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := api.NewClient(&api.Config{Address: node.Addr, HttpClient: &http.Client{Transport: twice{transport}}})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, client, consulstore.Options{Prefix: newPrefix()})
	_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Value: []byte("mine")})
	trial.Outcome(t, err, store.Unknown, "2 times")
	if e := trial.Get(t, s, "g"); string(e.Value) != "mine" {
		t.Errorf("the register holds %q", e.Value)
	}
}

func answers(t *testing.T, node *consullab.Node) {
	r := newRelay(t, node.Addr)
	s := by(t, r.addr, newPrefix())
	refused := func(status int, body string) answer { return answer{status: status, body: body, refused: true} }
	for i, c := range []struct {
		given answer
		want  store.Outcome
	}{
		{refused(500, "No cluster leader"), store.Transient},
		{refused(500, "rpc error making call: raft apply failed: node is not the leader"), store.Transient},
		{refused(500, "rpc error making call: raft apply failed: timed out enqueuing operation"), store.Transient},
		{refused(429, "rpc error making call: rate limit exceeded, try again later or against a different server"), store.Transient},
		{refused(503, "rate limit exceeded for operation that can only be performed by the leader, try again later"), store.Transient},
		{refused(429, "Your IP is issuing too many concurrent connections, please rate limit your calls"), store.Transient},
		{refused(403, "ACL not found"), store.Permanent},
		{refused(413, "Request body too large"), store.Permanent},
		{refused(400, "Failed to parse body"), store.Permanent},
		{refused(409, `{"Errors":[{"OpIndex":0,"What":"failed to set key \"g\", index is stale"}]}`), store.Conflict},
		{refused(409, `{"Errors":[{"OpIndex":0,"What":"Permission denied"}]}`), store.Permanent},
		{refused(409, `{"Errors":[{"OpIndex":0,"What":"failed kvs lookup"}]}`), store.Transient},
		// The others are given to writes that were applied.
		{answer{status: 409, body: "a gateway's own"}, store.Unknown},
		{answer{status: 500, body: "raft apply failed: leadership lost while committing log"}, store.Unknown},
		{answer{status: 500, body: "raft apply failed: raft is already shutdown"}, store.Unknown},
		{answer{status: 500, body: "rpc error making call: EOF"}, store.Unknown},
		{answer{status: 502, body: "bad gateway"}, store.Unknown},
		{answer{status: 503, body: "service unavailable"}, store.Unknown},
		{answer{status: 504, body: "gateway timeout"}, store.Unknown},
		{answer{status: 429, body: "a gateway's own"}, store.Unknown},
		{answer{status: 200, body: "{}"}, store.Unknown},
		{answer{status: 200, body: "{"}, store.Unknown},
		{answer{}, store.Unknown},
	} {
		key, value := fmt.Sprintf("g%d", i), "applied"
		r.next(c.given)
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: key, Value: []byte(value)})
		if got := store.Classify(err); got != c.want {
			t.Errorf("%d %q: got %v, want %v: %v", c.given.status, c.given.body, got, c.want, err)
		}
		if c.given.refused {
			value = ""
		}
		if e := trial.Get(t, s, key); string(e.Value) != value {
			t.Errorf("%d %q: the register holds %q, want %q", c.given.status, c.given.body, e.Value, value)
		}
	}
	r.next(answer{status: 413, refused: true})
	if _, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g"}); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "txn_max_req_len") {
		t.Error(err)
	}
}

func prefixes(t *testing.T, node *consullab.Node) {
	a, b := by(t, node.Addr, newPrefix()), by(t, node.Addr, newPrefix())
	trial.Must(t, a, store.Write{Key: "g", Value: []byte("a")})
	trial.Must(t, b, store.Write{Key: "g", Value: []byte("b")})
	reads(t, a, "g", "a")
	pair, _, err := node.Client(t).KV().Get(a.Prefix()+"g", nil)
	if err != nil || pair == nil || string(pair.Value) != "a" {
		t.Errorf("Consul's own tool reads %v, %v: the record is to be there unchanged", pair, err)
	}
}

func oneTransaction(t *testing.T, node *consullab.Node) {
	r := newRelay(t, node.Addr)
	s := by(t, r.addr, newPrefix())
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	for i := range 9 {
		rev = trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: fmt.Append(nil, i), Tombstone: i%3 == 2})
	}
	_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: 1})
	trial.Outcome(t, err, store.Conflict)
	if w, n := r.served("write"), r.served("read"); w != 11 || n != 0 {
		t.Errorf("11 writes took %d transactions and %d reads", w, n)
	}
}

// An agent cleans the path of a request, so that such a name would address
// another key.
func oddNames(t *testing.T, node *consullab.Node) {
	s := by(t, node.Addr, newPrefix())
	names := []string{"a/b", "a//b", "/a/b", "a/b/", "a/./b", "a/././b", "//", "/", "-/./a", "a.b/.c", "=/_"}
	heard := make(chan store.Entry, 1000)
	stop, err := s.WatchPattern(trial.Within(t), ">", func(e store.Entry) { heard <- e }, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, name := range names {
		trial.Must(t, s, store.Write{Key: name, Value: []byte(name)})
	}
	for _, name := range names {
		if e := trial.Get(t, s, name); string(e.Value) != name {
			t.Errorf("%q reads %q", name, e.Value)
		}
		h := trial.Listen(t, s, name)
		h.Value(name)
	}
	left := slices.Clone(names)
	for ctx := trial.Within(t); len(left) > 0; {
		select {
		case e := <-heard:
			left = slices.DeleteFunc(left, func(name string) bool { return name == e.Key && string(e.Value) == name })
		case <-ctx.Done():
			t.Fatalf("not heard of: %q", left)
		}
	}
}

// Indexes grow across deletion, restart and restore, and a snapshot that takes
// writes back is noticed.
func TestIndexesGrow(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 1)
	node := cluster.Nodes[0]
	s := by(t, node.Addr, newPrefix())
	client := node.Client(t)
	old := trial.Must(t, s, store.Write{Key: "g", Value: []byte("old")})
	snapshot := node.Save()
	rev := trial.Must(t, s, store.Write{Key: "g", Expected: old, Value: []byte("new")})
	if _, err := client.KV().Delete(s.Prefix()+"g", nil); err != nil {
		t.Fatal(err)
	}
	again := trial.Must(t, s, store.Write{Key: "g", Value: []byte("again")})
	if again <= rev {
		t.Errorf("made again after its deletion at revision %d: revision %d", rev, again)
	}
	h := trial.Listen(t, s, "g")
	h.Value("again")
	cluster.Kill()
	cluster.Run()
	if e := trial.Get(t, s, "g"); e.Revision != again {
		t.Errorf("after a restart: %+v", e)
	}
	rev = trial.Settle(t, s, "g", again, "more")
	h.Value("more")
	node.Restore(snapshot)
	h.Value("old") // the watch goes back, too
	if e := trial.Get(t, s, "g"); e.Revision != old || string(e.Value) != "old" {
		t.Errorf("after a restore of the state at revision %d: %+v", old, e)
	}
	if next := trial.Settle(t, s, "g", old, "after"); next <= rev {
		t.Errorf("the write after the restore has revision %d, and %d was given before", next, rev)
	}
	h.Value("after")
}

// Many calls at a time do not open more connections than an agent allows, which
// are 200.
func TestManyCallsShareFewConnections(t *testing.T) {
	t.Parallel()
	r := newRelay(t, consullab.Start(t, 1).Nodes[0].Addr)
	s := by(t, r.addr, newPrefix())
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			if _, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: fmt.Sprintf("g%d", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// The relay counts one a moment longer than the client does.
	if n := r.most("write"); n > 150 {
		t.Errorf("%d calls were under way at a time", n)
	}
}
