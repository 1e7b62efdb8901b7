package quorumstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

type reporting struct {
	*memstore.Store
	report store.Report
}

func (r reporting) Check(context.Context, store.CheckRequest) (store.Report, error) {
	return r.report, nil
}

func TestCheckRefusesMembersThatForget(t *testing.T) {
	for name, r := range map[string]store.Report{"forgetful": {Forgetful: true}, "expires": {Expires: true}} {
		members := three()
		members[1].Store = reporting{memstore.New(), r}
		_, err := open(t, members).Check(t.Context(), store.CheckRequest{})
		if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("%s: %v; want a permanent failure that names member b", name, err)
		}
	}
}

// A strict member can be read, and not written.
type strict struct{ *memstore.Store }

func (strict) Check(_ context.Context, req store.CheckRequest) (store.Report, error) {
	if req.Key != "" {
		return store.Report{}, fmt.Errorf("%w: key %q cannot be written", store.ErrPermanent, req.Key)
	}
	return store.Report{}, nil
}

// A member's Check finds out whether it suits writes, such as whether a bucket
// of S3 obeys the conditions of writes, only for a key that is to be written.
func TestCheckRefusesMembersThatDoNotSuitWrites(t *testing.T) {
	members := three()
	members[1].Store = strict{memstore.New()}
	_, err := open(t, members).Check(t.Context(), store.CheckRequest{Key: "k"})
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), `member "b": `) || !strings.Contains(err.Error(), `"k"`) {
		t.Errorf("Check of a key that is to be written: %v; want a permanent failure that names member b and the key", err)
	}
	if _, err := open(t, members).Check(t.Context(), store.CheckRequest{}); err != nil {
		t.Errorf("Check by a process that only reads: %v", err)
	}
}

func TestCheckReportsTheYoungestMember(t *testing.T) {
	members := three()
	for i, age := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
		members[i].Store = reporting{memstore.New(), store.Report{Age: age}}
	}
	r, err := open(t, members).Check(t.Context(), store.CheckRequest{})
	if err != nil || r.Age != time.Hour {
		t.Errorf("Check: age %v, %v; want 1h", r.Age, err)
	}
	members[2].Store = reporting{memstore.New(), store.Report{}}
	if r, err = open(t, members).Check(t.Context(), store.CheckRequest{}); err != nil || r.Age != 0 {
		t.Errorf("Check with a member of unknown age: age %v, %v; want 0", r.Age, err)
	}
}

func TestCheckPreparesKeysForWritesWithoutAMember(t *testing.T) {
	faults, members := cutting()
	s := open(t, members)
	if _, err := s.Check(t.Context(), store.CheckRequest{Reads: []string{"k"}}); err != nil {
		t.Fatal(err)
	}
	faults[0].Partition("p")
	write(t, s, 0, "v")
}

func TestConnectedWhileAMajorityIs(t *testing.T) {
	faults, members := cutting()
	s := open(t, members)
	states := make(chan store.ConnState, 16)
	defer s.OnConnState(func(c store.ConnState) { states <- c })()
	faults[0].Partition("p")
	if c := s.ConnState(); c != store.Connected {
		t.Fatalf("one member away: %v", c)
	}
	faults[1].Partition("p")
	if c := <-states; c != store.Disconnected {
		t.Fatalf("two members away: %v", c)
	}
	faults[0].Heal("p")
	if c := <-states; c != store.Connected {
		t.Fatalf("one member back: %v", c)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := <-states; c != store.Closed {
		t.Fatalf("after Close: %v", c)
	}
}

func TestCheckRefusesOneStoreUnderTwoNames(t *testing.T) {
	members := three()
	members[2].Store = members[0].Store
	_, err := open(t, members).Check(t.Context(), store.CheckRequest{Key: "k"})
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), `the mark of member "a"`) {
		t.Errorf("Check: %v; want a permanent failure that names a and c", err)
	}
	// Whoever comes later finds the marks, also of a member that is away.
	members, stores := memories(3)
	for range 2 {
		if r, err := open(t, members).Check(t.Context(), store.CheckRequest{Key: "k"}); err != nil || len(r.Warnings) > 3 {
			t.Errorf("Check of three stores: %v, %q", err, r.Warnings)
		}
	}
	if e, _ := stores[0].Get(t.Context(), "leader-quorum-check"); e.Revision != 1 {
		t.Errorf("the mark was written again: revision %d", e.Revision)
	}
	ways, members := gates(stores)
	ways[0].cut.Store(true)
	members[1].Store = ways[2].Store
	if _, err := open(t, members).Check(t.Context(), store.CheckRequest{Key: "k"}); !errors.Is(err, store.ErrPermanent) {
		t.Errorf("Check with a member away: %v; want a permanent failure", err)
	}
}
