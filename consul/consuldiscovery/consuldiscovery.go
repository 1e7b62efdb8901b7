package consuldiscovery

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
)

// The defaults of Options.
const (
	DefaultTag        = "leader"
	DefaultPrefix     = "leader-discovery/"
	DefaultNodePrefix = "leader-"

	DefaultMinSessionTTL = 10 * time.Second
)

// Options are the settings of an [Announcer].
type Options struct {
	// Service is the name of the leader's service. Required.
	Service string
	// Tag is its tag. Default: DefaultTag.
	Tag string
	// Prefix is the common beginning of the keys of all groups: one key for
	// each, at Prefix + group. It must differ from the prefix of a store with
	// the group's records (consul/consulstore), whose keys are the same.
	// Default: DefaultPrefix.
	Prefix string
	// NodePrefix is what the names of the candidates' nodes in the catalog
	// begin with. Default: DefaultNodePrefix.
	NodePrefix string
	// MinSessionTTL is the servers' session_ttl_min, below which they refuse
	// sessions. A session is otherwise of half a trust window. Default:
	// DefaultMinSessionTTL, which is Consul's.
	MinSessionTTL time.Duration
	// Datacenter must be the client's datacenter, if it names one (api.Config):
	// for a registration, Consul reads it from the registration alone, and
	// would otherwise make the node in the agent's own. Default: the agent's.
	Datacenter string
}

// An Announcer writes leaders' entries into Consul's catalog. It may serve
// several groups at the same time.
type Announcer struct {
	client *api.Client
	opts   Options
	name   string // distinguishes its sessions from those made by other announcers

	mu       sync.Mutex
	sessions map[string]string // the ids of this announcer's sessions, by the names of the nodes
}

var (
	_ discovery.Refresher = (*Announcer)(nil)
	_ discovery.Watcher   = (*Announcer)(nil)
)

// New returns an announcer over a client, which remains the caller's.
func New(client *api.Client, opts Options) (*Announcer, error) {
	if client == nil {
		return nil, &leader.ConfigError{Field: "client", Rule: "must not be nil"}
	}
	if opts.Service == "" {
		return nil, &leader.ConfigError{Field: "Service", Value: "", Rule: "is required"}
	}
	opts.Tag = cmp.Or(opts.Tag, DefaultTag)
	opts.Prefix = cmp.Or(opts.Prefix, DefaultPrefix)
	opts.NodePrefix = cmp.Or(opts.NodePrefix, DefaultNodePrefix)
	opts.MinSessionTTL = cmp.Or(opts.MinSessionTTL, DefaultMinSessionTTL)
	return &Announcer{client: client, opts: opts, name: rand.Text(), sessions: map[string]string{}}, nil
}

// Look implements [discovery.Announcer] by consistent reads of the key and of
// the service's health.
func (a *Announcer) Look(ctx context.Context, group string) (discovery.Standing, error) {
	pair, _, err := a.client.KV().Get(a.key(group), consistent(ctx))
	if err != nil {
		return discovery.Standing{}, fmt.Errorf("consul: %w", err)
	}
	if pair == nil {
		return discovery.Standing{Version: "0"}, nil
	}
	s := discovery.Standing{Version: strconv.FormatUint(pair.ModifyIndex, 10)}
	r, ok := readRecord(pair.Value, group)
	if !ok {
		s.Damaged = true
		return s, nil
	}
	s.LastTerm = r.LastTerm
	if r.Entry == nil {
		return s, nil
	}
	s.Entry = *r.Entry
	stands, _, err := a.client.Health().Service(a.opts.Service, a.opts.Tag, false, consistent(ctx))
	if err != nil {
		return discovery.Standing{}, fmt.Errorf("consul: %w", err)
	}
	s.Damaged = !a.whole(stands, s.Entry)
	return s, nil
}

// whole reports whether of all instances of the service the leader's is as it
// should be, healthy, and the only one of its group.
func (a *Announcer) whole(all []*api.ServiceEntry, e discovery.Entry) bool {
	n := 0
	for _, s := range all {
		if s.Service.Meta[metaGroup] != e.Group {
			continue
		}
		want, err := a.service(e)
		inForce := func(c *api.HealthCheck) bool {
			return c.CheckID == checkID && strings.HasPrefix(c.Definition.SessionName, a.sessionsOf(e))
		}
		if err != nil || s.Node.Node != a.node(e) || !sameService(s.Service, &want) ||
			!slices.ContainsFunc(s.Checks, inForce) || s.Checks.AggregatedStatus() != api.HealthPassing {
			return false
		}
		n++
	}
	return n == 1
}

func sameService(s, want *api.AgentService) bool {
	return s.ID == want.ID && s.Service == want.Service && s.Address == want.Address && s.Port == want.Port &&
		slices.Equal(s.Tags, want.Tags) && maps.Equal(s.Meta, want.Meta)
}

// Announce implements [discovery.Announcer]. The key comes first, for of
// several that announce the same leader one alone may make the leader's node:
// another's check would hang on a session that nobody renews. Then come the
// node, its check and the session: without the service they lead nobody
// anywhere, however late they arrive.
func (a *Announcer) Announce(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	service, err := a.service(e)
	if err != nil {
		return err
	}
	others, err := a.others(ctx, e)
	if err != nil {
		return err
	}
	value, err := record{Entry: &e, LastTerm: e.Term}.bytes()
	if err != nil {
		return err
	}
	if stands.Version, err = a.swap(ctx, e.Group, stands, value, nil); err != nil {
		return err
	}
	if err := a.begin(ctx, e, service.Address); err != nil {
		return err
	}
	ops := api.TxnOps{{Service: &api.ServiceTxnOp{Verb: api.ServiceSet, Node: a.node(e), Service: service}}}
	_, err = a.swap(ctx, e.Group, stands, value, append(ops, others...))
	return err
}

// others are the operations that remove the service of the group from all nodes
// except the node of the entry's candidate. A node that represents a candidate
// is removed with it. Any other node belongs to another program and keeps its
// other services.
func (a *Announcer) others(ctx context.Context, e discovery.Entry) (ops api.TxnOps, err error) {
	all, _, err := a.client.Catalog().Service(a.opts.Service, "", consistent(ctx))
	if err != nil {
		return nil, fmt.Errorf("consul: %w", err)
	}
	for _, s := range all {
		switch {
		case s.ServiceMeta[metaGroup] != e.Group || s.Node == a.node(e):
		case s.Node == a.node(discovery.Entry{Group: e.Group, Instance: s.ServiceMeta[metaInstance]}):
			ops = append(ops, gone(s.Node))
		default:
			ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{
				Verb: api.ServiceDelete, Node: s.Node, Service: api.AgentService{ID: s.ServiceID, Service: s.ServiceName},
			}})
		}
	}
	return ops, nil
}

// gone is the operation that removes a candidate's node, with all that belongs
// to it.
func gone(node string) *api.TxnOp {
	return &api.TxnOp{Node: &api.NodeTxnOp{Verb: api.NodeDelete, Node: api.Node{Node: node}}}
}

// checkID names the check that reports whether the session is in force.
const checkID = "leader"

// begin makes the candidate's node, with a check that only a session makes
// pass.
func (a *Announcer) begin(ctx context.Context, e discovery.Entry, host string) error {
	node, name := a.node(e), a.session(e)
	_, err := a.client.Catalog().Register(&api.CatalogRegistration{
		Datacenter: a.opts.Datacenter, Node: node, Address: host, NodeMeta: map[string]string{metaGroup: e.Group, metaInstance: e.Instance},
		Checks: api.HealthChecks{{
			Node: node, CheckID: checkID, Name: "the leader's session", Type: "session", Status: api.HealthCritical,
			Definition: api.HealthCheckDefinition{SessionName: name},
		}},
	}, writing(ctx))
	if err != nil {
		return fmt.Errorf("consul: the candidate's node: %w", err)
	}
	a.end(ctx, node)
	id, _, err := a.client.Session().CreateNoChecks(&api.SessionEntry{
		Name: name, Node: node, Behavior: api.SessionBehaviorDelete, TTL: min(max(e.TTL, a.opts.MinSessionTTL), longest).String(),
	}, writing(ctx))
	if err != nil {
		return fmt.Errorf("consul: the candidate's session: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[node] = id
	return nil
}

// longest is the longest session that Consul takes (agent/structs,
// SessionTTLMax).
const longest = 24 * time.Hour

// end ends an earlier session of this announcer, which would otherwise run out.
func (a *Announcer) end(ctx context.Context, node string) {
	a.mu.Lock()
	id := a.sessions[node]
	delete(a.sessions, node)
	a.mu.Unlock()
	if id != "" {
		_, _ = a.client.Session().Destroy(id, writing(ctx))
	}
}

// swap writes the key if it is unchanged since it was seen, and does the rest
// with it. It returns the key's version. Consul reports a write that changes
// nothing as done without a new index (agent/consul/state, kvsSetTxn), so that
// two announcers of the same leader would both succeed. Since the flags contain
// the index that a write replaces, each write is a change.
func (a *Announcer) swap(ctx context.Context, group string, stands discovery.Standing, value []byte, ops api.TxnOps) (version string, err error) {
	index, err := strconv.ParseUint(stands.Version, 10, 64)
	if err != nil {
		return "", fmt.Errorf("consuldiscovery: version %q: %w", stands.Version, err)
	}
	cas := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVCAS, Key: a.key(group), Value: value, Flags: index, Index: index}}
	ok, answer, _, err := a.client.Txn().Txn(append(api.TxnOps{cas}, ops...), (&api.QueryOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return "", fmt.Errorf("consul: %w", err)
	case ok && len(answer.Results) > 0 && answer.Results[0].KV != nil:
		return strconv.FormatUint(answer.Results[0].KV.ModifyIndex, 10), nil
	case ok:
		return "", errors.New("consul: the answer to a transaction does not name the key's index")
	}
	refused := make([]error, 0, len(answer.Errors))
	for _, e := range answer.Errors {
		refused = append(refused, errors.New(e.What))
	}
	// Consul gives the reason in words alone.
	pair, _, err := a.client.KV().Get(a.key(group), consistent(ctx))
	if err == nil && (pair == nil && index != 0 || pair != nil && pair.ModifyIndex != index) {
		return "", discovery.ErrChanged
	}
	return "", fmt.Errorf("consul: refused: %w", errors.Join(refused...))
}

// Refresh implements [discovery.Refresher]: it renews the session.
func (a *Announcer) Refresh(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	a.mu.Lock()
	id := a.sessions[a.node(e)]
	a.mu.Unlock()
	if id == "" { // it is of an earlier announcer
		return a.Announce(ctx, e, stands)
	}
	session, _, err := a.client.Session().Renew(id, writing(ctx))
	if err != nil {
		return fmt.Errorf("consul: %w", err)
	}
	if session == nil {
		return discovery.ErrChanged // it ran out, and the check is critical
	}
	return nil
}

// Withdraw implements [discovery.Announcer]. The node is removed with its
// service, its check and its session, and so is a predecessor's node that an
// interrupted announcement has left there. The key remains, and remembers the
// term.
func (a *Announcer) Withdraw(ctx context.Context, stands discovery.Standing) error {
	value, err := record{LastTerm: stands.LastTerm}.bytes()
	if err != nil {
		return err
	}
	others, err := a.others(ctx, stands.Entry)
	if err != nil {
		return err
	}
	node := a.node(stands.Entry)
	if _, err := a.swap(ctx, stands.Entry.Group, stands, value, append(others, gone(node))); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, node)
	return nil
}

// wait is how long a blocking query waits for a change. Consul adds up to a
// sixteenth to it.
const wait = time.Minute

// Watch implements [discovery.Watcher] by blocking queries for the service.
func (a *Announcer) Watch(ctx context.Context, _ string, changed func()) error {
	for index := uint64(0); ; {
		at, err := a.block(ctx, index)
		if err != nil {
			return err
		}
		if at != index {
			changed()
		}
		if index = at; at == 0 {
			return errors.New("consul: a blocking query has no index")
		}
	}
}

func (a *Announcer) block(ctx context.Context, index uint64) (at uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+wait/8)
	defer cancel()
	_, meta, err := a.client.Health().Service(a.opts.Service, a.opts.Tag, false, (&api.QueryOptions{WaitIndex: index, WaitTime: wait}).WithContext(ctx))
	switch {
	case err != nil:
		return 0, fmt.Errorf("consul: %w", err)
	case meta.LastIndex < index:
		return 1, nil // of a restored snapshot: ask again
	}
	return meta.LastIndex, nil
}

func consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

func writing(ctx context.Context) *api.WriteOptions { return (&api.WriteOptions{}).WithContext(ctx) }

// service is the leader's service for an entry.
func (a *Announcer) service(e discovery.Entry) (s api.AgentService, err error) {
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		return s, fmt.Errorf("consuldiscovery: the leader's Address has to be host:port: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || number == 0 {
		return s, fmt.Errorf("consuldiscovery: the leader's Address has to be host:port, and is %q", e.Address)
	}
	return api.AgentService{
		ID: a.opts.Service + "-" + a.opts.Tag, Service: a.opts.Service, Tags: []string{a.opts.Tag}, Address: host, Port: int(number),
		Meta: map[string]string{
			metaGroup: e.Group, metaInstance: e.Instance, metaTerm: strconv.FormatUint(e.Term, 10), metaCorrelation: e.Correlation,
		},
	}, nil
}
