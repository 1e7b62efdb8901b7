package etcdstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// opened opens a store by its URL, which is closed when the test ends.
func opened(t *testing.T, url string) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.Open(trial.Within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		trial.SaysClosed(t, s)
	})
	return s
}

func TestOpen(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 3)
	var hosts []string
	for _, n := range cluster.Nodes {
		hosts = append(hosts, n.Addr)
	}
	all := opened(t, "etcd://"+strings.Join(hosts, ",")+"/team/leader/")
	one := opened(t, "etcd://"+hosts[0]+"/team/leader/")
	other := opened(t, "ETCD://"+hosts[0])
	if all.Prefix() != "team/leader/" || other.Prefix() != etcdstore.DefaultPrefix {
		t.Errorf("prefixes %q and %q", all.Prefix(), other.Prefix())
	}
	rev := trial.Must(t, all, store.Write{Key: "g", Value: []byte("1")})
	if e := trial.Get(t, one, "g"); e.Revision != rev {
		t.Errorf("%+v", e)
	}
	if e := trial.Get(t, other, "g"); e.Revision != 0 {
		t.Errorf("%+v", e)
	}
	h := trial.Listen(t, all, "g")
	h.Value("1")
	cluster.Leader().Kill()
	trial.Settle(t, all, "g", rev, "2")
	h.Value("2")
	// Two of three are enough to open by.
	late := opened(t, "etcd://"+strings.Join(hosts, ",")+"/team/leader/")
	if e := trial.Get(t, late, "g"); string(e.Value) != "2" {
		t.Errorf("%+v", e)
	}
}

func TestOpenByTLS(t *testing.T) {
	t.Parallel()
	node := etcdlab.Start(t, 1, "--auto-tls").Nodes[0]
	natslab.Eventually(t, "a store by TLS", func(ctx context.Context) error {
		s, err := etcdstore.Open(ctx, "etcds://"+node.Addr+"?ca="+node.CA())
		if err != nil {
			return err
		}
		defer s.Close() //nolint:errcheck // the next one is looked at
		_, err = s.Get(ctx, "g")
		return err
	})
	s := opened(t, "etcds://"+node.Addr+"?ca="+node.CA())
	trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	trial.Listen(t, s, "g").Value("1")
	// The system's authorities do not vouch for it, and without TLS it does not
	// answer.
	for _, url := range []string{"etcds://" + node.Addr, "etcd://" + node.Addr} {
		_, err := etcdstore.Open(trial.Brief(t), url)
		trial.Outcome(t, err, store.Transient)
	}
}
