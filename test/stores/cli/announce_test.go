package cli_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/stores/etcdlab"
)

// TestTheLeaderIsAnnounced: leader announce beside candidates of leader
// campaign, which announce nothing. The last of them is killed, and its entry
// goes.
func TestTheLeaderIsAnnounced(t *testing.T) {
	for kind, start := range map[string]func(testing.TB) (to string, shown func(context.Context) (string, error)){
		"etcd": etcdShows, "consul": consulShows,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			to, shown := start(t)
			shows := func(want string) {
				t.Helper()
				natslab.Eventually(t, fmt.Sprintf("clients are led to %q", want), func(ctx context.Context) error {
					got, err := shown(ctx)
					if err == nil && got != want {
						err = fmt.Errorf("they are led to %q", got)
					}
					return err
				})
			}
			d := desk{t, natslab.Start(t).URL() + "/votes"}
			// An entry that nobody keeps goes with the lease of the leader. So
			// the lease outlasts what is between the end of one announce and
			// the look behind it, on a machine that stands still for a while.
			const ttl = "12s"
			a := d.start("promoted", "campaign", "jobs", "--id", "a", "--ttl", ttl, "--address", "192.0.2.1:80", "--json")
			first := d.start("announced a", "announce", "jobs", "--to", to)
			shows("192.0.2.1:80")
			b := d.start("following", "campaign", "jobs", "--id", "b", "--ttl", ttl, "--address", "192.0.2.2:80", "--json")
			d.try(0, "transfer", "jobs", "--to", "b", "-y", "--force")
			shows("192.0.2.2:80")
			// It ends, and the entry stays, which another takes over.
			if err := first.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := first.Wait(); err != nil {
				t.Errorf("after SIGTERM: %v", err)
			}
			shows("192.0.2.2:80")
			d.start("metrics http", "announce", "jobs", "--to", to, "--metrics", "127.0.0.1:0")
			shows("192.0.2.2:80")
			for _, c := range []interface{ Kill() error }{a.Process, b.Process} {
				if err := c.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			shows("")
		})
	}
}

func etcdShows(tb testing.TB) (to string, shown func(context.Context) (string, error)) {
	tb.Helper()
	cluster := etcdlab.Start(tb, 1)
	client := cluster.Client(tb)
	return "etcd://" + strings.TrimPrefix(cluster.URLs()[0], "http://"), func(ctx context.Context) (string, error) {
		found, err := client.Get(ctx, "leader-discovery/jobs/", clientv3.WithPrefix())
		if err != nil || len(found.Kvs) == 0 {
			return "", err
		}
		_, rest, _ := strings.Cut(string(found.Kvs[0].Value), `"Addr":"`)
		address, _, _ := strings.Cut(rest, `"`)
		return address, nil
	}
}

func consulShows(tb testing.TB) (to string, shown func(context.Context) (string, error)) {
	tb.Helper()
	node := consullab.Start(tb, 1).Nodes[0]
	client := node.Client(tb)
	return "consul://" + node.Addr + "/jobs-leader", func(ctx context.Context) (string, error) {
		found, _, err := client.Health().Service("jobs-leader", "leader", true, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		if err != nil || len(found) == 0 {
			return "", err
		}
		return fmt.Sprintf("%s:%d", found[0].Service.Address, found[0].Service.Port), nil
	}
}

func TestAnnounceSaysWhatItCannotDo(t *testing.T) {
	d := desk{t, "redis://127.0.0.1:1"}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"jobs"}, 2, "--to"},
		{[]string{"jobs", "--to", "zookeeper://zk"}, 2, "must begin with etcd://"},
		{[]string{"jobs", "--to", "etcd://"}, 2, "names no host"},
		{[]string{"jobs", "--to", "etcd://user:secret@host:bad:port"}, 2, "is no URL"},
		{[]string{"jobs", "other", "--to", "consul://host/service"}, 2, "one service is for one group"},
		{[]string{"jobs", "--to", "consul://host/?session_ttl_min=x"}, 2, "session_ttl_min"},
		{[]string{"jobs", "jobs", "--to", "etcd://host"}, 2, "named twice"},
		{[]string{"j obs", "--to", "etcd://host"}, 2, "must be letters"},
		{[]string{"jobs", "--to", "etcd://127.0.0.1:1"}, 1, "127.0.0.1:1"},
		{[]string{"jobs", "--to", "etcd://user:secret@127.0.0.1:1"}, 6, "no server has let us in at http://127.0.0.1:1"},
	} {
		if _, stderr := d.try(c.code, append([]string{"announce"}, c.args...)...); !strings.Contains(stderr, c.says) || strings.Contains(stderr, "secret") {
			t.Errorf("%v: %s", c.args, stderr)
		}
	}
}
