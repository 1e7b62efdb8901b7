package election_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// startWith starts an election that asks for so many replicas, and returns what
// Start said and warned of.
func startWith(t *testing.T, nc *nats.Conn, replicas int) (warnings []string, err error) {
	t.Helper()
	var mu sync.Mutex
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "b", BucketAutoCreate: true, Replicas: replicas, Group: "g", InstanceID: "a",
		TTL: long, HeartbeatInterval: time.Second,
		Hooks: leader.Hooks{Note: func(n leader.Note) {
			mu.Lock()
			defer mu.Unlock()
			if n.Kind == leader.NoteWarning {
				warnings = append(warnings, n.Text)
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Start(natslab.Within(t))
	if stopped := e.Stop(); stopped != nil {
		t.Error(stopped)
	}
	mu.Lock()
	defer mu.Unlock()
	return warnings, err
}

func TestReplicasThatCannotBeKeptAreRefused(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	_, err := startWith(t, nc, 3)
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "cannot keep 3 replicas") {
		t.Errorf("three on one server: %v", err)
	}
	if _, err := startWith(t, nc, 1); err != nil {
		t.Fatal(err)
	}
	warnings, err := startWith(t, nc, 3)
	if err != nil || !strings.Contains(strings.Join(warnings, "\n"), "has 1 replicas and not 3") {
		t.Errorf("a bucket that exists: %q, %v", warnings, err)
	}
}
