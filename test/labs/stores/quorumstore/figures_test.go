package quorumstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/internal/quorumlab"
)

// TestFigures measures what docs/guides/quorum.md quotes. It judges nothing:
// the times are the machine's.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("-figures measures")
	}
	for _, q := range []struct {
		name  string
		start func(testing.TB) []member
		down  int // the member that is killed
	}{
		{"NATS, etcd and PostgreSQL, without NATS", mixed, 0},
		{"two NATS servers and S3, without a NATS server", polled, 0},
		{"two NATS servers and S3, without S3", polled, 2},
	} {
		t.Run(q.name, func(t *testing.T) { measure(t, q.start(t), q.down) })
	}
}

func measure(t *testing.T, members []member, down int) {
	const heartbeat = time.Second
	url := place(members)
	made(t, url)
	handovers := quorumlab.NewHandovers()
	for i := range 2 {
		e, err := leader.NewElectionWithStore(open(t, url), leader.ElectionConfig{
			Group: "g", InstanceID: fmt.Sprint("c", i), TTL: 2 * time.Minute, HeartbeatInterval: heartbeat, DeleteOnStop: true, AcquireGrace: leader.GraceOff,
		})
		if err != nil {
			t.Fatal(err)
		}
		handovers.Add(e)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop() })
	}
	for _, what := range []string{"all members up", "one down"} {
		t.Logf("a renewal, %s: %s", what, quorumlab.Spread(quorumlab.Renewals(t, open(t, url), 200, 0)))
		var took []time.Duration
		for range 30 {
			took = append(took, handovers.Measure(t))
		}
		t.Logf("a handover, a heartbeat of %v, %s: %s", heartbeat, what, quorumlab.Spread(took))
		members[down].process.Kill()
	}
}
