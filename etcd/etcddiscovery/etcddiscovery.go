package etcddiscovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
)

// DefaultPrefix is the prefix of entries by default.
const DefaultPrefix = "leader-discovery/"

// Options are the settings of an [Announcer]. The zero value is a good one.
type Options struct {
	// Prefix is the common beginning of the keys of all groups. The entry of a
	// group is at Prefix + group + "/leader", with each slash in the group's
	// name as an exclamation mark. It must differ from the prefix of a store
	// with the group's records (etcd/etcdstore), whose keys are Prefix + group.
	// Default: DefaultPrefix.
	Prefix string
}

// An Announcer writes leaders' entries into etcd. It may serve any number of
// groups at the same time.
type Announcer struct {
	client *clientv3.Client
	prefix string

	mu     sync.Mutex
	leases map[string]clientv3.LeaseID // that we have been granted, by group
}

var (
	_ discovery.Refresher = (*Announcer)(nil)
	_ discovery.Watcher   = (*Announcer)(nil)
)

// New returns an announcer over a client, which remains the caller's.
func New(client *clientv3.Client, opts Options) (*Announcer, error) {
	if client == nil {
		return nil, &leader.ConfigError{Field: "client", Rule: "must not be nil"}
	}
	if opts.Prefix == "" {
		opts.Prefix = DefaultPrefix
	}
	return &Announcer{client: client, prefix: opts.Prefix, leases: map[string]clientv3.LeaseID{}}, nil
}

// key is where the entry of a group is. Readers of etcd's naming take all keys
// below a target for endpoints of one service, so no group is below another.
func (a *Announcer) key(group string) string {
	return a.prefix + strings.ReplaceAll(group, "/", "!") + "/leader"
}

// An endpoint is a value as etcd's package naming/endpoints writes it. Op 0
// adds one.
type endpoint struct {
	Op       uint8
	Addr     string
	Metadata *discovery.Entry
}

func valueOf(e discovery.Entry) (string, error) {
	meta := e
	meta.Address = "" // it is Addr
	value, err := json.Marshal(endpoint{Addr: e.Address, Metadata: &meta})
	return string(value), err
}

// A version is the key's ModRevision and the lease that it hangs on.
type version struct {
	revision int64
	lease    clientv3.LeaseID
}

func (v version) String() string { return fmt.Sprintf("%d/%x", v.revision, int64(v.lease)) }

func versionOf(s discovery.Standing) (v version, err error) {
	revision, lease, _ := strings.Cut(s.Version, "/")
	if v.revision, err = strconv.ParseInt(revision, 10, 64); err != nil {
		return v, fmt.Errorf("etcddiscovery: version %q: %w", s.Version, err)
	}
	id, err := strconv.ParseInt(lease, 16, 64)
	v.lease = clientv3.LeaseID(id)
	return v, err
}

// Look implements [discovery.Announcer] by a linearizable read.
func (a *Announcer) Look(ctx context.Context, group string) (discovery.Standing, error) {
	answer, err := a.client.Get(ctx, a.key(group))
	if err != nil {
		return discovery.Standing{}, fmt.Errorf("etcd: %w", err)
	}
	if len(answer.Kvs) == 0 {
		return discovery.Standing{Version: version{}.String()}, nil
	}
	kv := answer.Kvs[0]
	s := discovery.Standing{Version: version{kv.ModRevision, clientv3.LeaseID(kv.Lease)}.String()}
	var e endpoint
	if err := json.Unmarshal(kv.Value, &e); err != nil || e.Metadata == nil || e.Metadata.Group != group {
		s.Damaged = true
		return s, nil //nolint:nilerr // what others wrote is to be replaced
	}
	s.Entry = *e.Metadata
	s.Entry.Address = e.Addr
	s.LastTerm = s.Entry.Term
	s.Damaged = e.Op != 0 || kv.Lease == 0 // without a lease it would stay for ever
	return s, nil
}

// seconds is a lease's length in etcd's unit.
func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// Announce implements [discovery.Announcer]: it has a lease granted, and puts
// the entry under it.
func (a *Announcer) Announce(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	v, err := versionOf(stands)
	if err != nil {
		return err
	}
	value, err := valueOf(e)
	if err != nil {
		return fmt.Errorf("etcddiscovery: %w", err)
	}
	granted, err := a.client.Grant(ctx, seconds(e.TTL))
	if err != nil {
		return fmt.Errorf("etcd: no lease: %w", err)
	}
	err = a.swap(ctx, e.Group, v, clientv3.OpPut(a.key(e.Group), value, clientv3.WithLease(granted.ID)))
	if err != nil {
		// If the write is on its way, it is not applied without the lease.
		a.revoke(ctx, granted.ID)
		return err
	}
	if old := a.keep(e.Group, granted.ID); old != 0 {
		a.revoke(ctx, old)
	}
	return nil
}

// swap does op if the key is at the version.
func (a *Announcer) swap(ctx context.Context, group string, v version, op clientv3.Op) error {
	answer, err := a.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(a.key(group)), "=", v.revision)).Then(op).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("etcd: %w", err)
	case !answer.Succeeded:
		return discovery.ErrChanged
	}
	return nil
}

// keep notes the lease of a group, and returns the one before.
func (a *Announcer) keep(group string, id clientv3.LeaseID) (old clientv3.LeaseID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old = a.leases[group]
	delete(a.leases, group)
	if id != clientv3.NoLease {
		a.leases[group] = id
	}
	return old
}

// revoke ends a lease early. It would end by itself.
func (a *Announcer) revoke(ctx context.Context, id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = a.client.Revoke(ctx, id)
}

// Refresh implements [discovery.Refresher]: it prolongs the lease. An entry
// with another client's lease is announced again.
func (a *Announcer) Refresh(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	v, err := versionOf(stands)
	if err != nil {
		return err
	}
	a.mu.Lock()
	own := a.leases[e.Group]
	a.mu.Unlock()
	if own != v.lease {
		return a.Announce(ctx, e, stands)
	}
	if _, err = a.client.KeepAliveOnce(ctx, own); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return discovery.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}

// Withdraw implements [discovery.Announcer].
func (a *Announcer) Withdraw(ctx context.Context, stands discovery.Standing) error {
	v, err := versionOf(stands)
	if err != nil {
		return err
	}
	group := stands.Entry.Group
	if err := a.swap(ctx, group, v, clientv3.OpDelete(a.key(group))); err != nil {
		return err
	}
	if old := a.keep(group, clientv3.NoLease); old != 0 {
		a.revoke(ctx, old)
	}
	return nil
}

// Watch implements [discovery.Watcher].
func (a *Announcer) Watch(ctx context.Context, group string, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for answer := range a.client.Watch(clientv3.WithRequireLeader(ctx), a.key(group), clientv3.WithCreatedNotify()) {
		if err := answer.Err(); err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		changed()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("etcd: the watch has ended")
}
