// Package consuldiscovery_test judges the leader's entry in Consul on real
// servers.
package consuldiscovery_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/consul/consuldiscovery"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/announced"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	announced.Main(m, leaks.Main, func(group, _ string, args []string) (discovery.Announcer, error) {
		client, err := api.NewClient(&api.Config{Address: args[0], Token: args[1]})
		if err != nil {
			return nil, err
		}
		shortest, err := time.ParseDuration(args[2])
		if err != nil {
			return nil, err
		}
		return consuldiscovery.New(client, consuldiscovery.Options{Service: group, MinSessionTTL: shortest})
	})
}

// short is session_ttl_min of the servers that do not have Consul's own.
const short = time.Second

// open returns an announcer for the service of the group's name.
func open(tb testing.TB, address, token, service string, post *announced.Post) *consuldiscovery.Announcer {
	tb.Helper()
	return openWith(tb, address, token, post, consuldiscovery.Options{Service: service, MinSessionTTL: short})
}

func openWith(tb testing.TB, address, token string, post *announced.Post, opts consuldiscovery.Options) *consuldiscovery.Announcer {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	var by http.RoundTripper = transport
	if post != nil {
		by = post.Through(transport, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/txn") })
	}
	client, err := api.NewClient(&api.Config{Address: address, Token: token, HttpClient: &http.Client{Transport: by}})
	if err != nil {
		tb.Fatal(err)
	}
	a, err := consuldiscovery.New(client, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// shown returns the instances that a client reaches if it asks for those that
// are well.
func shown(client *api.Client) func(ctx context.Context, group string) ([]string, error) {
	return func(ctx context.Context, group string) (all []string, err error) {
		found, _, err := client.Health().Service(group, "leader", true, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		for _, s := range found {
			all = append(all, net.JoinHostPort(s.Service.Address, strconv.Itoa(s.Service.Port)))
		}
		slices.Sort(all)
		return all, err
	}
}

// token makes a token with the rights that the package's documentation names.
func token(t *testing.T, node *consullab.Node, services ...string) string {
	t.Helper()
	rules := `key_prefix "leader-discovery/" { policy = "write" } node_prefix "leader-" { policy = "write" } session_prefix "leader-" { policy = "write" } node_prefix "" { policy = "read" }`
	for _, s := range services {
		rules += fmt.Sprintf(" service %q { policy = \"write\" }", s)
	}
	acl := node.Client(t).ACL()
	if _, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "leader", Rules: rules}, nil); err != nil {
		t.Fatal(err)
	}
	made, _, err := acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: "leader"}}, Local: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made.SecretID
}

// With no more rights than those that are documented.
func TestTheLeaderIsFoundInConsul(t *testing.T) {
	t.Parallel()
	dns := ports.Free(t, 1)[0]
	node := consullab.Start(t, 1, consullab.ACL, `session_ttl_min = "1s"`,
		fmt.Sprintf(`ports { dns = %d } acl { tokens { dns = %q } }`, dns, consullab.Root)).Nodes[0]
	secret := token(t, node, append(announced.Groups(), "foreign")...)
	admin := node.Client(t)
	t.Run("other instances of the service are left alone", func(t *testing.T) { t.Parallel(); leavesOthersAlone(t, node) })
	t.Run("nodes of others are left alone", func(t *testing.T) { t.Parallel(); leavesNodesAlone(t, node, secret) })
	t.Run("who comes late leaves no trace", func(t *testing.T) { t.Parallel(); losesWithoutATrace(t, node) })
	t.Run("of two that repair an entry one does", func(t *testing.T) { t.Parallel(); repairsOnce(t, node) })
	t.Run("an announcement that is cut short leaves no predecessor", func(t *testing.T) { t.Parallel(); leavesNoPredecessor(t, node) })
	t.Run("a check without a session is critical", func(t *testing.T) { t.Parallel(); isCriticalWithoutASession(t, node) })
	t.Run("DNS leads to the leader", func(t *testing.T) { t.Parallel(); resolves(t, node, dns) })
	announced.Run(t, announced.System{
		Open: func(tb testing.TB, group, _ string, post *announced.Post) discovery.Announcer {
			return open(tb, node.Addr, secret, group, post)
		},
		Child: func(testing.TB, string, string) []string { return []string{node.Addr, secret, short.String()} },
		Shown: shown(admin),
		Destroy: func(ctx context.Context, group string) error {
			found, _, err := admin.Catalog().Service(group, "", (&api.QueryOptions{}).WithContext(ctx))
			for _, s := range found {
				_, err = admin.Catalog().Deregister(&api.CatalogDeregistration{Node: s.Node}, (&api.WriteOptions{}).WithContext(ctx))
			}
			return err
		},
		Spoil: func(ctx context.Context, group string) error {
			_, err := admin.KV().Put(&api.KVPair{Key: "leader-discovery/" + group, Value: []byte("?")}, (&api.WriteOptions{}).WithContext(ctx))
			return err
		},
		Expires: true,
	})
}

// Consul's own shortest session outlasts the lease by far. A dead leader's
// entry goes with the lease all the same, if anybody lives who looks after it.
func TestADeadLeadersEntryDoesNotWaitForConsulsSession(t *testing.T) {
	t.Parallel()
	const (
		lease = announced.TTL * 11 / 10
		// Consul ends a session of its shortest time, 10 s, twice that after it
		// was renewed last, which was within the second before the leader died.
		// So that is 19 s after the death at the earliest.
		slack = 13 * time.Second
	)
	node := consullab.Start(t, 1).Nodes[0]
	announced.RunSurvivals(t, announced.System{
		Open: func(tb testing.TB, group, _ string, post *announced.Post) discovery.Announcer {
			return openWith(tb, node.Addr, consullab.Root, post, consuldiscovery.Options{Service: group})
		},
		Child: func(testing.TB, string, string) []string {
			return []string{node.Addr, consullab.Root, time.Duration(0).String()}
		},
		Shown:  shown(node.Client(t)),
		Within: lease + slack,
	})
}

// An instance that an agent has registered under the same name, and its health,
// are none of our business.
func leavesOthersAlone(t *testing.T, node *consullab.Node) {
	t.Helper()
	client := node.Client(t)
	err := client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		Name: "reports", Tags: []string{"replica"}, Address: "192.0.2.9", Port: 80, Check: &api.AgentServiceCheck{TTL: "1h", Status: api.HealthCritical},
	})
	if err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "the agent has notified the servers", func(ctx context.Context) error {
		found, _, err := client.Catalog().Service("reports", "", (&api.QueryOptions{}).WithContext(ctx))
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d instances", len(found))
		}
		return err
	})
	ctx, a := natslab.Within(t), open(t, node.Addr, consullab.Root, "reports", nil)
	var stands discovery.Standing
	for term, id := range []string{"a", "b"} {
		e := discovery.Entry{Group: "g", Instance: id, Term: uint64(term) + 1, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
		if stands, err = a.Look(ctx, "g"); err != nil {
			t.Fatal(err)
		}
		if err := a.Announce(ctx, e, stands); err != nil {
			t.Fatal(err)
		}
		if stands, err = a.Look(ctx, "g"); err != nil || stands.Damaged || !stands.Entry.Same(e) {
			t.Fatalf("%v: %+v", err, stands)
		}
	}
	found, _, err := client.Catalog().Service("reports", "", nil)
	if err != nil || len(found) != 2 {
		t.Errorf("%v: %d instances, want the agent's and the leader's", err, len(found))
	}
	if err := a.Withdraw(ctx, stands); err != nil {
		t.Fatal(err)
	}
	if found, _, err = client.Catalog().Service("reports", "", nil); err != nil || len(found) != 1 || found[0].ServiceTags[0] != "replica" {
		t.Errorf("%v: %v", err, found)
	}
	nodes, _, err := client.Catalog().Nodes(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if strings.HasPrefix(n.Node, "leader-g-") {
			t.Errorf("the node %s is left over", n.Node)
		}
	}
}

// Another program has registered, on separate nodes, instances that carry a
// leader's description. These instances would be taken for a leader's, and are
// removed. The nodes stay with everything else that is on them. One of the
// nodes has a name that begins like the names of candidates.
func leavesNodesAlone(t *testing.T, node *consullab.Node, secret string) {
	t.Helper()
	const service = "foreign"
	foreign := []string{"db-primary-7", consuldiscovery.DefaultNodePrefix + "foreign-db"}
	client, ctx := node.Client(t), natslab.Within(t)
	register := func() {
		t.Helper()
		for _, name := range foreign {
			for _, s := range []*api.AgentService{
				{Service: "postgres"}, {Service: service, ID: "x", Tags: []string{consuldiscovery.DefaultTag}, Meta: map[string]string{"leader-group": service, "leader-instance": "a"}},
			} {
				if _, err := client.Catalog().Register(&api.CatalogRegistration{Node: name, Address: "192.0.2.7", Service: s}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stays := func(leaders int) {
		t.Helper()
		found, _, err := client.Catalog().Service("postgres", "", &api.QueryOptions{RequireConsistent: true})
		if err != nil || len(found) != len(foreign) {
			t.Errorf("%v: of %d nodes of others %d are left", err, len(foreign), len(found))
		}
		found, _, err = client.Catalog().Service(service, "", &api.QueryOptions{RequireConsistent: true})
		if err != nil || len(found) != leaders {
			t.Errorf("%v: %d instances, want %d", err, len(found), leaders)
		}
	}
	a := open(t, node.Addr, secret, service, nil)
	e := discovery.Entry{Group: service, Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
	register()
	if err := a.Announce(ctx, e, discovery.Standing{Version: "0"}); err != nil {
		t.Fatal(err)
	}
	stays(1)
	register()
	stands, err := a.Look(ctx, service)
	if err != nil || !stands.Damaged {
		t.Fatalf("%v: %+v", err, stands)
	}
	if err := a.Withdraw(ctx, stands); err != nil {
		t.Fatal(err)
	}
	stays(0)
}

// check is the leader's check in the catalog.
func check(t *testing.T, node *consullab.Node, service string) *api.HealthCheck {
	t.Helper()
	found, _, err := node.Client(t).Health().Service(service, "leader", false, &api.QueryOptions{RequireConsistent: true})
	if err != nil || len(found) != 1 || len(found[0].Checks) != 1 {
		t.Fatalf("%v: %+v", err, found)
	}
	return found[0].Checks[0]
}

// Of two that announce the same leader, the one that comes late leaves the
// check alone, which hangs on the other's session.
func losesWithoutATrace(t *testing.T, node *consullab.Node) {
	t.Helper()
	ctx := natslab.Within(t)
	first, second := open(t, node.Addr, consullab.Root, "raced", nil), open(t, node.Addr, consullab.Root, "raced", nil)
	e := discovery.Entry{Group: "raced", Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
	nothing, err := second.Look(ctx, "raced")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Announce(ctx, e, nothing); err != nil {
		t.Fatal(err)
	}
	before := check(t, node, "raced")
	if err := second.Announce(ctx, e, nothing); !errors.Is(err, discovery.ErrChanged) {
		t.Fatalf("%v, want ErrChanged", err)
	}
	if after := check(t, node, "raced"); after.Definition.SessionName != before.Definition.SessionName || after.Status != api.HealthPassing {
		t.Errorf("%+v, and before %+v", after, before)
	}
	// Each knows what the other wrote as whole.
	stands, err := second.Look(ctx, "raced")
	if err != nil || stands.Damaged || !stands.Entry.Same(e) {
		t.Fatalf("%v: %+v", err, stands)
	}
	// When the second takes the entry over, the first one's session may end.
	sessions, _, err := node.Client(t).Session().Node(before.Node, &api.QueryOptions{RequireConsistent: true})
	if err != nil || len(sessions) != 1 {
		t.Fatalf("%v: %d sessions", err, len(sessions))
	}
	if err := second.Announce(ctx, e, stands); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Client(t).Session().Destroy(sessions[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	if after := check(t, node, "raced"); after.Status != api.HealthPassing {
		t.Errorf("%+v", after)
	}
}

// Of two that saw the same damage, and write the same over the same index, one
// alone may make the session.
func repairsOnce(t *testing.T, node *consullab.Node) {
	t.Helper()
	ctx := natslab.Within(t)
	first, second := open(t, node.Addr, consullab.Root, "repaired", nil), open(t, node.Addr, consullab.Root, "repaired", nil)
	e := discovery.Entry{Group: "repaired", Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
	for range 2 { // made, and then repaired
		stands, err := second.Look(ctx, "repaired")
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Announce(ctx, e, stands); err != nil {
			t.Fatal(err)
		}
		before := check(t, node, "repaired")
		if err := second.Announce(ctx, e, stands); !errors.Is(err, discovery.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
		if after := check(t, node, "repaired"); after.Definition.SessionName != before.Definition.SessionName || after.Status != api.HealthPassing {
			t.Errorf("%+v, and before %+v", after, before)
		}
	}
}

// dying returns an announcer that dies before it has made a session.
func dying(t *testing.T, node *consullab.Node, service string) *consuldiscovery.Announcer {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := api.NewClient(&api.Config{Address: node.Addr, Token: consullab.Root, HttpClient: &http.Client{Transport: sessionless{transport}}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := consuldiscovery.New(client, consuldiscovery.Options{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The next leader dies while it announces itself: what its predecessor left
// goes with what it left.
func leavesNoPredecessor(t *testing.T, node *consullab.Node) {
	t.Helper()
	ctx := natslab.Within(t)
	e := discovery.Entry{Group: "cut", Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
	a := open(t, node.Addr, consullab.Root, "cut", nil)
	if err := a.Announce(ctx, e, discovery.Standing{Version: "0"}); err != nil {
		t.Fatal(err)
	}
	stands, err := a.Look(ctx, "cut")
	if err != nil {
		t.Fatal(err)
	}
	next := discovery.Entry{Group: "cut", Instance: "b", Term: 2, Correlation: "d", Address: "192.0.2.2:80", TTL: time.Minute}
	if err := dying(t, node, "cut").Announce(ctx, next, stands); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	if stands, err = a.Look(ctx, "cut"); err != nil || !stands.Damaged || !stands.Entry.Same(next) {
		t.Fatalf("%v: %+v", err, stands)
	}
	if err := a.Withdraw(ctx, stands); err != nil {
		t.Fatal(err)
	}
	if found, _, err := node.Client(t).Catalog().Service("cut", "", &api.QueryOptions{RequireConsistent: true}); err != nil || len(found) != 0 {
		t.Errorf("%v: %+v", err, found)
	}
}

// A leader that announces itself again and dies before it has a session leaves
// a check that nothing makes pass.
func isCriticalWithoutASession(t *testing.T, node *consullab.Node) {
	t.Helper()
	ctx := natslab.Within(t)
	e := discovery.Entry{Group: "dying", Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:80", TTL: time.Minute}
	if err := open(t, node.Addr, consullab.Root, "dying", nil).Announce(ctx, e, discovery.Standing{Version: "0"}); err != nil {
		t.Fatal(err)
	}
	again := dying(t, node, "dying")
	stands, err := again.Look(ctx, "dying")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Announce(ctx, e, stands); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	if c := check(t, node, "dying"); c.Status != api.HealthCritical {
		t.Errorf("the check is %s: %+v", c.Status, c)
	}
	if stands, err := again.Look(ctx, "dying"); err != nil || !stands.Damaged {
		t.Errorf("%v: %+v", err, stands)
	}
}

var errDied = errors.New("it died")

// A sessionless way to Consul makes no session.
type sessionless struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s sessionless) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/session/create") {
		return nil, errDied
	}
	return s.RoundTripper.RoundTrip(r)
}

// Consul's DNS names the leader, and nobody when its session has ended although
// nobody withdrew its entry.
func resolves(t *testing.T, node *consullab.Node, port int) {
	t.Helper()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}}
	await := func(want ...uint16) {
		t.Helper()
		natslab.Eventually(t, fmt.Sprintf("DNS answers %v", want), func(ctx context.Context) error {
			_, found, err := resolver.LookupSRV(ctx, "", "", "leader.named.service.consul.")
			if none := new(net.DNSError); errors.As(err, &none) && none.IsNotFound {
				err = nil
			}
			var got []uint16
			for _, f := range found {
				got = append(got, f.Port)
			}
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("it answers %v", got)
			}
			return err
		})
	}
	await()
	ctx, a := natslab.Within(t), open(t, node.Addr, consullab.Root, "named", nil)
	e := discovery.Entry{Group: "named", Instance: "a", Term: 1, Correlation: "c", Address: "192.0.2.1:8080"}
	announce := func(term uint64, ttl time.Duration) {
		t.Helper()
		stands, err := a.Look(ctx, "named")
		if err != nil {
			t.Fatal(err)
		}
		e.Term, e.TTL = term, ttl
		if err := a.Announce(ctx, e, stands); err != nil {
			t.Fatal(err)
		}
	}
	announce(1, time.Minute)
	await(8080)
	announce(2, time.Second)
	await() // nobody renews the session
}
