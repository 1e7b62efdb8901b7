// Package etcddiscovery_test judges the leader's entry in etcd on real servers.
package etcddiscovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/naming/endpoints"
	"go.etcd.io/etcd/client/v3/naming/resolver"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/etcd/etcddiscovery"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/announced"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	announced.Main(m, leaks.Main, func(_, _ string, args []string) (discovery.Announcer, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: args, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		return etcddiscovery.New(client, etcddiscovery.Options{})
	})
}

// open returns an announcer whose transactions go through post, if there is
// one.
func open(tb testing.TB, cluster *etcdlab.Cluster, post *announced.Post) *etcddiscovery.Announcer {
	tb.Helper()
	return openAs(tb, cluster, func(c *clientv3.Config) {
		if post == nil {
			return
		}
		c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if !strings.HasSuffix(method, "/Txn") {
					return invoke(ctx, method, req, reply, cc, opts...)
				}
				return post.Send(ctx, func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
			}))
	})
}

func openAs(tb testing.TB, cluster *etcdlab.Cluster, configure func(*clientv3.Config)) *etcddiscovery.Announcer {
	tb.Helper()
	a, err := etcddiscovery.New(cluster.Client(tb, configure), etcddiscovery.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func key(group string) string { return "leader-discovery/" + group + "/leader" }

func TestTheLeaderIsFoundInEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	admin := cluster.Client(t)
	t.Run("an entry without a lease is announced again", func(t *testing.T) { t.Parallel(); needsALease(t, cluster) })
	t.Run("etcd's resolver leads gRPC clients to the leader", func(t *testing.T) { t.Parallel(); resolves(t, cluster) })
	t.Run("a group whose name begins with another's is not taken for that", func(t *testing.T) { t.Parallel(); apart(t, cluster) })
	announced.Run(t, announced.System{
		Open: func(tb testing.TB, _, _ string, post *announced.Post) discovery.Announcer {
			return open(tb, cluster, post)
		},
		Child: func(testing.TB, string, string) []string { return cluster.URLs() },
		Shown: func(ctx context.Context, group string) (all []string, err error) {
			found, err := admin.Get(ctx, "leader-discovery/"+group+"/", clientv3.WithPrefix())
			if err != nil {
				return nil, err
			}
			for _, kv := range found.Kvs {
				var e endpoints.Endpoint
				if err := json.Unmarshal(kv.Value, &e); err != nil {
					return nil, err
				}
				all = append(all, e.Addr)
			}
			return all, nil
		},
		Destroy: func(ctx context.Context, group string) error {
			_, err := admin.Delete(ctx, key(group))
			return err
		},
		Spoil: func(ctx context.Context, group string) error {
			_, err := admin.Put(ctx, key(group), `{"Op":0,"Addr":"203.0.113.9:666","Metadata":null}`)
			return err
		},
		Expires: true,
	})
}

// A put of the same value detaches the key from its lease, so that the key
// would stay for ever.
func needsALease(t *testing.T, cluster *etcdlab.Cluster) {
	t.Helper()
	a, admin := open(t, cluster, nil), cluster.Client(t)
	ctx := natslab.Within(t)
	e := discovery.Entry{Group: "g", Instance: "a", Term: 3, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
	if err := a.Announce(ctx, e, discovery.Standing{Version: "0/0"}); err != nil {
		t.Fatal(err)
	}
	value, err := admin.Get(ctx, key("g"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Put(ctx, key("g"), string(value.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	stands, err := a.Look(ctx, "g")
	if err != nil || !stands.Damaged || !stands.Entry.Same(e) {
		t.Fatalf("%v: %+v", err, stands)
	}
	// If the entry has another client's lease, a refresh moves it to the
	// announcer's lease.
	lease, err := admin.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Put(ctx, key("g"), string(value.Kvs[0].Value), clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	if stands, err = a.Look(ctx, "g"); err != nil || stands.Damaged {
		t.Fatalf("%v: %+v", err, stands)
	}
	if err := a.Refresh(ctx, e, stands); err != nil {
		t.Fatal(err)
	}
	if found, err := admin.Get(ctx, key("g")); err != nil || found.Kvs[0].Lease == int64(lease.ID) {
		t.Errorf("%v: %v", err, found)
	}
}

// etcd's own resolver leads gRPC clients to the leader.
func resolves(t *testing.T, cluster *etcdlab.Cluster) {
	t.Helper()
	a := open(t, cluster, nil)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	builder, err := resolver.NewBuilder(cluster.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("etcd:///leader-discovery/resolved", grpc.WithResolvers(builder), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	e := discovery.Entry{Group: "resolved", Instance: "a", Term: 3, Correlation: "c", Address: listener.Addr().String(), TTL: time.Minute}
	if err := a.Announce(natslab.Within(t), e, discovery.Standing{Version: "0/0"}); err != nil {
		t.Fatal(err)
	}
	answer, err := healthpb.NewHealthClient(conn).Check(natslab.Within(t), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Error(err, answer)
	}
}

// A resolver takes all keys below its target for endpoints of one service.
func apart(t *testing.T, cluster *etcdlab.Cluster) {
	t.Helper()
	a, admin := open(t, cluster, nil), cluster.Client(t)
	for group, target := range map[string]string{"eu": "eu", "eu/orders": "eu!orders", "eu/orders/leader": "eu!orders!leader"} {
		e := discovery.Entry{Group: group, Instance: "a", Term: 3, Correlation: "c", Address: target + ":80", TTL: time.Minute}
		if err := a.Announce(natslab.Within(t), e, discovery.Standing{Version: "0/0"}); err != nil {
			t.Fatal(err)
		}
		if stands, err := a.Look(natslab.Within(t), group); err != nil || !stands.Entry.Same(e) {
			t.Errorf("%v: %+v", err, stands)
		}
	}
	for _, target := range []string{"eu", "eu!orders", "eu!orders!leader"} {
		m, err := endpoints.NewManager(admin, "leader-discovery/"+target)
		if err != nil {
			t.Fatal(err)
		}
		found, err := m.List(natslab.Within(t))
		if err != nil || len(found) != 1 || found["leader-discovery/"+target+"/leader"].Addr != target+":80" {
			t.Errorf("target %s: %v, %v", target, found, err)
		}
	}
}

// The right to the group's key is enough, to the leases too.
func TestOnlyTheKeysPermissionIsNeeded(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1, "--bcrypt-cost", "4") // the cheapest of hashes
	admin, ctx := cluster.Client(t), natslab.Within(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(admin.RoleAdd(ctx, "one"))
	must(admin.RoleGrantPermission(ctx, "one", key("g"), "", clientv3.PermissionType(clientv3.PermReadWrite)))
	for user, role := range map[string]string{"root": "root", "one": "one"} {
		must(admin.UserAdd(ctx, user, user))
		must(admin.UserGrantRole(ctx, user, role))
	}
	must(admin.AuthEnable(ctx))
	a := openAs(t, cluster, func(c *clientv3.Config) { c.Username, c.Password = "one", "one" })
	changes := make(chan struct{}, 100)
	watching, done := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Watch(watching, "g", func() { changes <- struct{}{} }) }()
	<-changes // it has started
	e := discovery.Entry{Group: "g", Instance: "a", Term: 3, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
	look := func() discovery.Standing {
		t.Helper()
		stands, err := a.Look(ctx, "g")
		must(nil, err)
		return stands
	}
	must(nil, a.Announce(ctx, e, look()))
	<-changes
	must(nil, a.Refresh(ctx, e, look()))
	e.Term = 4
	must(nil, a.Announce(ctx, e, look()))
	must(nil, a.Withdraw(ctx, look()))
	if stands := look(); !stands.Entry.IsZero() {
		t.Errorf("%+v", stands)
	}
	done()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Neither are leases left behind.
	root := openClient(t, cluster)
	natslab.Eventually(t, "the leases are gone", func(ctx context.Context) error {
		leases, err := root.Leases(ctx)
		if err == nil && len(leases.Leases) != 0 {
			err = fmt.Errorf("%d leases", len(leases.Leases))
		}
		return err
	})
}

func openClient(t *testing.T, cluster *etcdlab.Cluster) *clientv3.Client {
	t.Helper()
	return cluster.Client(t, func(c *clientv3.Config) { c.Username, c.Password = "root", "root" })
}
