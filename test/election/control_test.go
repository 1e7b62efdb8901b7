package election_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A request as another program writes it, by the protocol's description alone.
type request struct {
	Op        string `json:"op"`
	Term      uint64 `json:"term"`
	Successor string `json:"successor,omitempty"`
	By        string `json:"by,omitempty"`
}

func (r request) json() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // of strings and a number
	}
	return b
}

func TestAnotherProgramAsksTheLeaderToStepDown(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	close(p.demote)
	if _, err := p.kv.Put(natslab.Within(t), "_ctl.g", request{Op: "step-down", Term: p.a.Term().Number, By: "operator"}.json()); err != nil {
		t.Fatal(err)
	}
	p.await("b leads", p.b.IsLeader)
	if why := p.a.lost(); why != leader.ReasonSteppedDown {
		t.Errorf("a's reason is %q", why)
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	for _, info := range p.b.heard {
		if info.By == "operator" && info.Reason == leader.ReasonSteppedDown {
			return
		}
	}
	// b may have missed the vacancy only by taking it before it told of it.
	t.Logf("b heard %+v", p.b.heard)
}

func TestAnotherProgramAsksTheLeaderToHandOver(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	for i := range 4 {
		g.join(srv.Connect(t), fmt.Sprint("other", i)).follows(a)
	}
	heir := g.join(srv.Connect(t), "heir")
	heir.follows(a)
	kv, err := natslab.JetStream(t, srv.Connect(t)).KeyValue(natslab.Within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(natslab.Within(t), "_ctl.g", request{Op: "transfer", Term: a.Term().Number, Successor: "heir"}.json()); err != nil {
		t.Fatal(err)
	}
	if got := g.leaderAfter(a); got != heir {
		t.Errorf("%s leads instead of the heir", got.id)
	}
}

// Requests that are not meant for the present term, or that nobody can read,
// change nothing. The proof that they were heard is a request after them that
// is obeyed.
func TestOtherRequestsAreIgnored(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	close(p.demote)
	term := p.a.Term().Number
	for _, body := range []string{
		"", "{}", "null", "[]", "step-down", `{"op":"step-down"}`, "\x00\xff",
		string(request{Op: "step-down", Term: term - 1}.json()),
		string(request{Op: "step-down", Term: term + 1}.json()),
		string(request{Op: "transfer", Term: term}.json()), // to whom?
		string(request{Op: "explode", Term: term}.json()),
		string(garbage(64 << 10)),
	} {
		if _, err := p.kv.Put(natslab.Within(t), "_ctl.g", []byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := p.a.ValidateToken(natslab.Within(t)); err != nil {
			t.Fatalf("after %.40q: %v", body, err)
		}
	}
	if now := p.a.Term().Number; now != term {
		t.Fatalf("term %d, was %d", now, term)
	}
	if _, err := p.kv.Put(natslab.Within(t), "_ctl.g", request{Op: "step-down", Term: term}.json()); err != nil {
		t.Fatal(err)
	}
	p.await("b leads", p.b.IsLeader)
}

// A request outlives its term in the bucket. Nobody who leads later obeys it.
func TestRequestIsNotObeyedTwice(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	close(p.demote)
	if _, err := p.kv.Put(natslab.Within(t), "_ctl.g", request{Op: "step-down", Term: p.a.Term().Number}.json()); err != nil {
		t.Fatal(err)
	}
	p.await("b leads", p.b.IsLeader)
	p.a.follows(p.b)
	p.b.resign()
	p.await("a leads again", p.a.IsLeader)
	if err := p.a.ValidateToken(natslab.Within(t)); err != nil {
		t.Errorf("a's second term: %v", err)
	}
}

func garbage(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i/251)
	}
	return b
}

// standingsOf counts the standings of priority 1 and more in a record.
func standingsOf(t *testing.T, value []byte) (n int) {
	t.Helper()
	var r struct {
		Standings []struct{ Priority int }
	}
	if err := json.Unmarshal(value, &r); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	for _, s := range r.Standings {
		if s.Priority > 0 {
			n++
		}
	}
	return n
}
