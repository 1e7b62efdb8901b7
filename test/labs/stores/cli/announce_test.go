package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
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
			d := desk{t, bucket(t)}
			// An entry without a keeper goes with the lease of the leader. So
			// the lease must outlast the time from the end of one announce to
			// the look behind it, even on a machine that stalls for a while.
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
	return "consul://" + node.Addr + "/jobs-leader", showsIn(node.Client(tb))
}

// showsIn returns the instance that clients reach if they ask an agent of
// Consul.
func showsIn(client *api.Client) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found, _, err := client.Health().Service("jobs-leader", "leader", true, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		if err != nil || len(found) == 0 {
			return "", err
		}
		return fmt.Sprintf("%s:%d", found[0].Service.Address, found[0].Service.Port), nil
	}
}

func TestAnnounceReportsUnsupportedStores(t *testing.T) {
	d := desk{t, "redis://127.0.0.1:1"}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"jobs"}, 2, "--to"},
		{[]string{"jobs", "--to", "zookeeper://zk"}, 2, "must begin with etcd://"},
		{[]string{"jobs", "--to", "etcd://"}, 2, "names no host"},
		{[]string{"jobs", "--to", "etcd://user:secret@host:bad:port"}, 2, "is not a URL"},
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
	t.Run("a datacenter that Consul does not know", announcesNowhere)
}

// A datacenter may be joined later, so the command goes on, and reports why no
// leader is announced.
func announcesNowhere(t *testing.T) {
	node := consullab.Start(t, 1).Nodes[0]
	d := desk{t, bucket(t)}
	d.start("promoted", "campaign", "jobs", "--id", "a", "--ttl", "12s", "--address", "192.0.2.1:80", "--json")
	cmd := exec.CommandContext(d.within(), program, "announce", "jobs", "--to", "consul://"+node.Addr+"/?dc=elsewhere", "--store", d.url)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	var all strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if strings.Contains(lines.Text(), "No path to datacenter") {
			return
		}
		fmt.Fprintln(&all, lines.Text())
	}
	t.Errorf("it does not report that there is no such datacenter:\n%s", all.String())
}

// TestTheLeaderIsAnnouncedInEachDatacenter: clients in another datacenter of
// Consul find the leader in their own, by what is announced there through the
// agent of this one.
func TestTheLeaderIsAnnouncedInEachDatacenter(t *testing.T) {
	t.Parallel()
	wan := ports.Free(t, 2)
	var nodes []*consullab.Node
	for i, port := range wan {
		nodes = append(nodes, consullab.Start(t, 1, fmt.Sprintf(
			`datacenter = "dc%d" ports { serf_wan = %d } retry_join_wan = ["127.0.0.1:%d"] retry_interval_wan = "200ms"`, i+1, port, wan[0],
		)).Nodes[0])
	}
	d := desk{t, bucket(t)}
	d.start("promoted", "campaign", "jobs", "--id", "a", "--ttl", "12s", "--address", "192.0.2.1:80", "--json")
	for i, node := range nodes {
		client := node.Client(t)
		found, err := showsIn(client)(t.Context())
		if err != nil || found != "" {
			t.Fatalf("dc%d leads to %q before anybody is announced there: %v", i+1, found, err)
		}
		d.start("announced a", "announce", "jobs", "--to", fmt.Sprintf("consul://%s/jobs-leader?dc=dc%d", nodes[0].Addr, i+1))
		natslab.Eventually(t, fmt.Sprintf("clients in dc%d are led to the leader", i+1), func(ctx context.Context) error {
			got, err := showsIn(client)(ctx)
			if err == nil && got != "192.0.2.1:80" {
				err = fmt.Errorf("they are led to %q", got)
			}
			return err
		})
	}
}
