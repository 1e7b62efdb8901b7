package consulstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// examine checks for a lease of that length.
func examine(t *testing.T, s *consulstore.Store, ttl time.Duration) store.Report {
	t.Helper()
	report, err := s.Check(trial.Within(t), store.CheckRequest{TTL: ttl, HeartbeatInterval: ttl / 3, Key: "g", Reads: []string{"_ctl.g"}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// warned demands these warnings, by a word of each, and no others.
func warned(t *testing.T, report store.Report, words ...string) {
	t.Helper()
	if len(report.Warnings) != len(words) {
		t.Errorf("%d warnings, want %d: %q", len(report.Warnings), len(words), report.Warnings)
	}
	for _, w := range words {
		if !strings.Contains(strings.Join(report.Warnings, "\n"), w) {
			t.Errorf("no warning contains %q: %q", w, report.Warnings)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	t.Run("OneServer", func(t *testing.T) {
		t.Parallel()
		s := by(t, consullab.Start(t, 1).Nodes[0].Addr, newPrefix())
		report := examine(t, s, time.Second)
		warned(t, report)
		if report.Forgetful {
			t.Error("a server with a data directory counts as forgetful")
		}
		if e := trial.Get(t, s, "g"); e.Revision != 0 {
			t.Errorf("Check wrote: %+v", e)
		}
	})
	t.Run("DevelopmentMode", func(t *testing.T) {
		t.Parallel()
		cluster := consullab.StartDev(t)
		s := by(t, cluster.Nodes[0].Addr, newPrefix())
		report := examine(t, s, time.Second)
		warned(t, report, "development mode")
		if !report.Forgetful {
			t.Error("a server that keeps its data in memory does not count as forgetful")
		}
		// And it does forget.
		trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
		cluster.Kill()
		cluster.Run()
		if e := trial.Get(t, s, "g"); e.Revision != 0 {
			t.Errorf("the record outlived its server: %+v", e)
		}
	})
	t.Run("ClusterOfTwo", func(t *testing.T) {
		t.Parallel()
		cluster := consullab.Start(t, 2)
		s := by(t, cluster.Nodes[0].Addr, newPrefix())
		warned(t, examine(t, s, time.Second), "Use an odd number", "performance.raft_multiplier")
		warned(t, examine(t, s, time.Minute), "Use an odd number")
		cluster.Nodes[1].Kill()
		natslab.Eventually(t, "a cluster without a majority is not a fit store", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := s.Check(ctx, store.CheckRequest{TTL: time.Minute, Key: "g"})
			if store.Classify(err) != store.Transient || !strings.Contains(err.Error(), "no cluster leader") {
				return fmt.Errorf("%w", err)
			}
			return nil
		})
	})
}

// token makes a token with these rules and no other right.
func token(t *testing.T, node *consullab.Node, name, rules string) string {
	t.Helper()
	acl := node.Client(t).ACL()
	if _, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil); err != nil {
		t.Fatal(err)
	}
	made, _, err := acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: name}}, Local: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made.SecretID
}

// The rights that the package's documentation names suffice, and without them
// the error names the missing right.
func TestRights(t *testing.T) {
	t.Parallel()
	node := consullab.Start(t, 1, consullab.ACL).Nodes[0]
	with := func(t *testing.T, name, rules string) *consulstore.Store {
		return open(t, consullab.Client(t, node.Addr, token(t, node, name, rules)), consulstore.Options{})
	}
	const agent = `agent_prefix "" { policy = "read" }`
	t.Run("ACandidateOfAllGroups", func(t *testing.T) {
		s := with(t, "all", `key_prefix "leader/" { policy = "write" } `+agent)
		warned(t, examine(t, s, time.Second))
		trial.Must(t, s, store.Write{Key: "all", Value: []byte("1")})
		trial.Listen(t, s, "all").Value("1")
	})
	t.Run("ACandidateOfOneGroup", func(t *testing.T) {
		s := with(t, "one", `key "leader/g" { policy = "write" } key "leader/_ctl.g" { policy = "write" } `+agent)
		warned(t, examine(t, s, time.Second))
		rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
		h := trial.Listen(t, s, "g", "_ctl.g")
		h.Value("1")
		trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("2"), Tombstone: true})
		h.Value("2")
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "h"})
		trial.Outcome(t, err, store.Permanent, `key "leader/h" { policy = "write" }`)
		// Consul spells it in two ways, by what was asked.
		_, err = s.Get(trial.Within(t), "h")
		trial.Outcome(t, err, store.Permanent, "ermission denied")
		_, err = s.Watch(trial.Within(t), []string{"g", "h"}, func(store.Entry) {})
		trial.Outcome(t, err, store.Permanent, "ermission denied", "leader/h")
	})
	t.Run("AnObserver", func(t *testing.T) {
		s := with(t, "observer", `key_prefix "leader/" { policy = "read" }`)
		trial.Must(t, by(t, node.Addr, ""), store.Write{Key: "seen", Value: []byte("1")})
		trial.Listen(t, s, "seen").Value("1")
		present := make(chan error, 10)
		stop, err := s.WatchPattern(trial.Within(t), ">", func(store.Entry) {}, func(err error) { present <- err })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := <-present; err != nil {
			t.Error(err)
		}
		_, err = s.Check(trial.Within(t), store.CheckRequest{TTL: time.Second, Key: "seen"})
		trial.Outcome(t, err, store.Permanent, `policy = "write"`)
	})
	t.Run("AnAgentThatDoesNotTell", func(t *testing.T) {
		report := examine(t, with(t, "silent", `key_prefix "leader/" { policy = "write" }`), time.Second)
		warned(t, report, `agent_prefix "" { policy = "read" }`)
		if !report.Forgetful {
			t.Error("nobody knows whether it forgets")
		}
	})
	t.Run("Nobody", func(t *testing.T) {
		trial.Must(t, by(t, node.Addr, ""), store.Write{Key: "hidden", Value: []byte("1")})
		for name, secret := range map[string]string{"anonymous": "", "unknown": "99999999-2222-3333-4444-555555555555"} {
			s := open(t, consullab.Client(t, node.Addr, secret), consulstore.Options{})
			_, err := s.Get(trial.Within(t), "hidden")
			trial.Outcome(t, err, store.Permanent)
			_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "hidden"})
			trial.Outcome(t, err, store.Permanent)
			if _, err = s.Check(trial.Within(t), store.CheckRequest{TTL: time.Second, Key: "hidden"}); !errors.Is(err, store.ErrPermanent) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("AnObserverOfOtherKeys", func(t *testing.T) {
		trial.Must(t, by(t, node.Addr, ""), store.Write{Key: "closed", Value: []byte("1")})
		s := with(t, "elsewhere", `key_prefix "elsewhere/" { policy = "read" }`)
		present := make(chan error, 10)
		stop, err := s.WatchPattern(trial.Within(t), ">", func(store.Entry) {}, func(err error) { present <- err })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		trial.Outcome(t, <-present, store.Permanent, "ermission denied")
	})
	t.Run("ByURL", func(t *testing.T) {
		secret := token(t, node, "url", `key_prefix "votes/" { policy = "write" }`)
		s, err := consulstore.Open(trial.Within(t), "consul://:"+secret+"@"+node.Addr+"/votes/")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // it never fails
		trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
		trial.Listen(t, s, "g").Value("1")
		if s.Prefix() != "votes/" {
			t.Error(s.Prefix())
		}
		// By TLS, and with the datacenter's name.
		relay := newRelayTLS(t, node.Addr)
		secure, err := consulstore.Open(trial.Within(t), "consuls://:"+secret+"@"+relay.addr+"/votes/?dc=dc1&ca="+relay.ca)
		if err != nil {
			t.Fatal(err)
		}
		defer secure.Close() //nolint:errcheck // it never fails
		if e := trial.Get(t, secure, "g"); string(e.Value) != "1" {
			t.Errorf("%+v", e)
		}
		if _, err := consulstore.Open(trial.Within(t), "consuls://"+relay.addr); store.Classify(err) != store.Transient || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a server that nobody vouches for: %v", err)
		}
		if _, err := consulstore.Open(trial.Within(t), "consul://"+node.Addr+"?dc=elsewhere"); err == nil || !strings.Contains(err.Error(), "datacenter") {
			t.Errorf("a datacenter that does not exist: %v", err)
		}
	})
}
