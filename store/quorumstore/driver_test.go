package quorumstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// A yard has stores by the host in a URL. A host that it does not have is away.
type yard struct {
	mu     sync.Mutex
	stores map[string]*memstore.Store
	query  string // of the last URL
	closed int
}

type kept struct {
	*memstore.Store
	y *yard
}

func (k kept) Close() error {
	k.y.mu.Lock()
	defer k.y.mu.Unlock()
	k.y.closed++
	return nil
}

func newYard(hosts ...string) *yard {
	y := &yard{stores: map[string]*memstore.Store{}}
	for _, host := range hosts {
		y.stores[host] = memstore.New()
	}
	return y
}

func (y *yard) add(host string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.stores[host] = memstore.New()
}

func (y *yard) driver() store.Driver {
	return store.Driver{Schemes: []string{"mem"}, Form: "mem://HOST", Open: func(_ context.Context, u *url.URL) (store.Opened, error) {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.query = u.RawQuery
		s := y.stores[u.Host]
		if s == nil {
			return nil, fmt.Errorf("%w: %s is away", store.ErrTransient, u.Host)
		}
		return kept{s, y}, nil
	}}
}

func TestDriverOpensMembers(t *testing.T) {
	y := newYard("h1", "h2", "h3")
	opened, err := store.Open(t.Context(), "quorum://?m=a=mem://h1&m=b=mem://h2&m=c=mem://h3/x?p=1%26q=a+b", quorumstore.Driver(y.driver()))
	if err != nil {
		t.Fatal(err)
	}
	if y.query != "p=1&q=a+b" && y.query != "" { // of whichever was opened last
		t.Errorf("a member got the query %q", y.query)
	}
	rev := write(t, opened, 0, "v")
	shows(t, opened, rev, "v")
	if err := opened.Close(); err != nil || y.closed != 3 {
		t.Errorf("Close = %v, and %d of 3 members are closed", err, y.closed)
	}
}

func TestDriverNamesTheMemberAtFault(t *testing.T) {
	y := newYard("h1", "h2", "h3")
	for rawURL, want := range map[string]string{
		"quorum://":                                        "members: 0: must be",
		"quorum://?m=a=mem://h1&m=b=mem://h2":              "members: 2: must be",
		"quorum://host?m=a=mem://h1":                       "must be nothing",
		"quorum://?m=a=mem://h1&n=b":                       `"n" is unknown`,
		"quorum://?m=a=mem://h1&m=mem://h2":                "member 2",
		"quorum://?m=a=mem://h1&m=a=mem://h2&m=c=mem://h3": `"a"`,
		"quorum://?m=a=mem://h1&m=b=foo://h2&m=c=mem://h3": `member "b"`,
	} {
		_, err := store.Open(t.Context(), rawURL, quorumstore.Driver(y.driver()))
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an invalid URL and %q", rawURL, err, want)
		}
	}
	_, err := store.Open(t.Context(), "quorum://?m=a=mem://h1&m=b=mem://gone&m=c=mem://lost", quorumstore.Driver(y.driver()))
	if store.Classify(err) != store.Transient || !strings.Contains(err.Error(), `member "b"`) || !strings.Contains(err.Error(), `member "c"`) {
		t.Errorf("two members are away: %v", err)
	}
}

func TestMemberThatIsAwayIsOpenedLater(t *testing.T) {
	y := newYard("h1", "h3")
	opened, err := store.Open(t.Context(), "quorum://?m=a=mem://h1&m=b=mem://h2&m=c=mem://h3", quorumstore.Driver(y.driver()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	s := opened.(interface { //nolint:errcheck // the driver's own type
		Inspect(ctx context.Context, key string) ([]quorumstore.MemberState, error)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	states, err := s.Inspect(ctx, "k")
	if err != nil || states[1].Name != "b" || states[1].Err == nil || states[0].Err != nil {
		t.Fatalf("Inspect = %+v, %v; want an error for member b alone", states, err)
	}
	y.add("h2")
	rev := write(t, opened, 0, "v") // waits for all
	write(t, opened, rev, "w")
	for {
		states, err = s.Inspect(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if states[1].Memory {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("Inspect: %+v; want a memory of member b", states)
		}
	}
}

func TestInspectShowsLagAndMemory(t *testing.T) {
	members, stores := memories(3)
	s := open(t, members)
	rev := write(t, s, 0, "v")
	for { // until the third, too, has it
		if states, err := s.Inspect(t.Context(), "k"); err != nil {
			t.Fatal(err)
		} else if states[0].Version == rev && states[1].Version == rev && states[2].Version == rev {
			break
		}
		rev = write(t, s, rev, "v")
	}
	e, _ := stores[0].Get(t.Context(), "k")
	stores[0].Put("k", accept(t, e, "w", rev+1))
	stores[1].Purge("k")
	stores[2].Put("k", []byte("another tool's"))
	states, err := s.Inspect(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []quorumstore.MemberState{
		{Name: "a", Memory: true, Version: rev + 1}, {Name: "b", Lag: 1}, {Name: "c", Lag: 1},
	} {
		got := states[i]
		got.Revision = 0
		if got != want {
			t.Errorf("Inspect: %+v, want %+v", got, want)
		}
	}
}

// A member may be refused after the others have opened the quorum, and be mended
// then. What it reports of its connection counts from then on.
func TestMemberThatIsRefusedLateIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		_, stores := memories(3)
		ways, _ := gates(stores)
		driver := store.Driver{Schemes: []string{"way"}, Form: "way://NUMBER", Open: func(_ context.Context, u *url.URL) (store.Opened, error) {
			if u.Host == "2" && tries.Add(1) == 1 {
				time.Sleep(2 * grace) // of virtual time
				return nil, fmt.Errorf("%w: wrong user", store.ErrPermanent)
			}
			return closing{ways[u.Host[0]-'0']}, nil
		}}
		opened, err := store.Open(t.Context(), "quorum://?m=a=way://0&m=b=way://1&m=c=way://2", quorumstore.Driver(driver))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = opened.Close() }()
		var last store.ConnState
		conn := opened.(store.ConnReporter) //nolint:errcheck // the driver's own type
		defer conn.OnConnState(func(s store.ConnState) { last = s })()
		time.Sleep(time.Minute)
		if tries.Load() != 2 {
			t.Errorf("the member was tried %d times", tries.Load())
		}
		ways[0].connection(store.Disconnected)
		if now := conn.ConnState(); now != store.Connected {
			t.Errorf("with two of three members: %v", now)
		}
		ways[2].connection(store.Disconnected)
		if last != store.Disconnected {
			t.Errorf("when the late member was lost, too, the listener received %v", last)
		}
	})
}

func TestCloseEndsTheOpeningOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ways, _ := gates(func() []*memstore.Store { _, s := memories(3); return s }())
		var pending atomic.Int64
		driver := store.Driver{Schemes: []string{"way"}, Form: "way://NUMBER", Open: func(ctx context.Context, u *url.URL) (store.Opened, error) {
			if u.Host == "2" {
				pending.Add(1)
				defer pending.Add(-1)
				<-ctx.Done()
				return nil, fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
			}
			return closing{ways[u.Host[0]-'0']}, nil
		}}
		opened, err := store.Open(t.Context(), "quorum://?m=a=way://0&m=b=way://1&m=c=way://2", quorumstore.Driver(driver))
		if err != nil {
			t.Fatal(err)
		}
		_ = opened.Close()
		if n := pending.Load(); n != 0 {
			t.Errorf("after Close, %d requests to open a member are under way", n)
		}
	})
}

// grace is how long the driver waits for the last member.
const grace = time.Second

type closing struct{ *gate }

func (closing) Close() error { return nil }
