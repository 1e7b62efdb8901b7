package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// endpointTime bounds the question to one endpoint, so that one that is down
// does not keep Check.
const endpointTime = time.Second

// failover is how long a cluster of etcd may take no writes when it loses its
// leader: up to two of its election timeouts, of 1 s by default, and the time
// until clients have found another member.
const failover = 3 * time.Second

// Check implements [store.Checker]. It demands that a majority of the members
// answers, that all endpoints are of one cluster, that no alarm is raised, and
// that the user may read and write the key; nothing is written. It warns of
// endpoints that do not answer, of learners, of an even number of voting
// members, of a database that is almost full, and of a lease that a change of
// etcd's own leader outlasts.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s.Pace(req.HeartbeatInterval, req.Key)
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return store.Report{}, err
	}
	defer cancel()
	members, err := s.members(ctx)
	if err != nil {
		return store.Report{}, err
	}
	found := finding{voters: voters(members), endpoints: s.endpoints(ctx), ttl: req.TTL}
	if err := found.refuse(); err != nil {
		return store.Report{}, err
	}
	if err := base.Usable(ctx, s.Store, req); err != nil {
		return store.Report{}, err
	}
	return store.Report{Warnings: found.warnings()}, nil
}

func voters(members []*pb.Member) (n int) {
	for _, m := range members {
		if !m.IsLearner {
			n++
		}
	}
	return n
}

// An endpoint is the status that one of the client's endpoints reports.
type endpoint struct {
	url    string
	status *pb.StatusResponse
	err    error
}

// endpoints asks all of the client's endpoints at once.
func (c *client) endpoints(ctx context.Context) []endpoint {
	ctx, cancel := context.WithTimeout(ctx, endpointTime)
	defer cancel()
	urls := c.etcd.Endpoints()
	answers := make(chan endpoint, len(urls))
	for _, url := range urls {
		go func() {
			status, err := c.etcd.Status(ctx, url)
			answers <- endpoint{url, (*pb.StatusResponse)(status), err}
		}()
	}
	all := make([]endpoint, len(urls))
	for i := range all {
		all[i] = <-answers
	}
	return all
}

// A finding is what Check learned of the servers.
type finding struct {
	voters    int
	endpoints []endpoint
	ttl       time.Duration
}

// refuse reports every property that makes elections unsafe or impossible.
func (f finding) refuse() error {
	var faults []error
	fault := func(when bool, format string, args ...any) {
		if when {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	var first endpoint
	for _, e := range f.endpoints {
		if e.err != nil {
			continue
		}
		if first.status == nil {
			first = e
		}
		alarms := strings.Join(e.status.Errors, " ")
		fault(e.status.Header.ClusterId != first.status.Header.ClusterId,
			"the endpoints %s and %s are of different clusters (%x, %x), which have a leader each: name endpoints of one cluster",
			first.url, e.url, first.status.Header.ClusterId, e.status.Header.ClusterId)
		fault(strings.Contains(alarms, "NOSPACE"), "%s has the alarm NOSPACE and takes no writes: compact and defragment etcd"+
			" or raise its --quota-backend-bytes, then disarm the alarm (etcdctl alarm disarm)", e.url)
		fault(strings.Contains(alarms, "CORRUPT"), "%s has the alarm CORRUPT, its members do not hold the same data: replace the member that differs,"+
			" then disarm the alarm (etcdctl alarm disarm)", e.url)
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: this etcd does not suit elections: %w", store.ErrPermanent, errors.Join(faults...))
}

// warnings returns the warnings about weakened guarantees.
func (f finding) warnings() (all []string) {
	warn := func(when bool, format string, args ...any) {
		if when {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	warn(f.voters%2 == 0, "The cluster has %d voting members, and stops when %d of them are down, as one with a member less does. Use an odd number.",
		f.voters, f.voters/2)
	warn(f.voters > 1 && f.ttl > 0 && f.ttl < failover, "A lease of %v may end while etcd changes its own leader, which takes up to two of its election timeouts (1 s by default)."+
		" Use a TTL of at least %v, or expect a change of leader then.", f.ttl, failover)
	for _, e := range f.endpoints {
		if e.err != nil {
			warn(true, "The endpoint %s did not answer: calls that meet it fail or wait (%v).", e.url, e.err)
			continue
		}
		quota := e.status.DbSizeQuota
		warn(e.status.IsLearner, "The endpoint %s is a learner, which refuses reads and writes. Name voting members.", e.url)
		warn(e.status.Leader == 0, "The endpoint %s is cut off from its cluster's leader: calls that meet it fail.", e.url)
		warn(quota > 0 && e.status.DbSize > quota/10*9, "The database of %s has %d of %d bytes: when it is full, etcd refuses renewals and leaders are lost."+
			" Compact and defragment etcd, or raise its --quota-backend-bytes.", e.url, e.status.DbSize, quota)
	}
	return all
}
