package agent

import (
	"fmt"
	"reflect"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// A status is the state that a candidate's client is given. Only an answer to a
// request has the times: see the package documentation.
type status struct {
	Candidate  string `json:"candidate"`
	Group      string `json:"group"`
	InstanceID string `json:"instance_id"`
	State      string `json:"state"`
	// Term and Token belong to the current term, in which this candidate's
	// client may act.
	Term  uint64 `json:"term,omitempty"`
	Token string `json:"token,omitempty"`
	*times

	// StoppingTerm is over, and its record kept until the client reports that
	// its work has stopped.
	StoppingTerm uint64 `json:"stopping_term,omitempty"`
	// Leader is who leads as far as is known.
	Leader *group `json:"leader,omitempty"`
	// Reason explains State, Barred why the candidate does not campaign,
	// Withdrawn why it is a candidate no more.
	Reason    leader.Reason `json:"reason,omitempty"`
	Barred    leader.Reason `json:"barred,omitempty"`
	Withdrawn string        `json:"withdrawn,omitempty"`
	// Connection is the state of the connection to the store, LastError its
	// last error.
	Connection string `json:"connection"`
	LastError  string `json:"last_error,omitempty"`
}

// times are counted from the instant before the request was sent.
type times struct {
	// Trust is for how long the client may act in Term.
	Trust int64 `json:"trust_for_ms"`
	// Lease is for how long the candidate remains without another keepalive.
	Lease int64 `json:"lease_for_ms"`
	// Pace is after what time the next keepalive is advised.
	Pace int64 `json:"keepalive_after_ms"`
}

// A group is who leads it, in the words of leader get -o json.
type group struct {
	Group            string            `json:"group"`
	Leader           string            `json:"leader,omitempty"`
	Last             string            `json:"last_leader,omitempty"`
	Term             uint64            `json:"term,omitempty"`
	Transitions      uint64            `json:"transitions,omitempty"`
	LeaseLeft        *int64            `json:"lease_left_ms,omitempty"` // not in events
	Priority         int               `json:"priority,omitempty"`
	Version          string            `json:"version,omitempty"`
	Address          string            `json:"address,omitempty"`
	Meta             map[string]string `json:"meta,omitempty"`
	ConnectionParams []byte            `json:"connection_params,omitempty"`
	Reason           leader.Reason     `json:"reason,omitempty"`
	By               string            `json:"by,omitempty"`
	Why              string            `json:"why,omitempty"`
	Successor        string            `json:"successor,omitempty"`
	Correlation      string            `json:"correlation,omitempty"`
}

// groupOf returns who leads, without times.
func groupOf(i leader.LeaderInfo) group {
	return group{
		Group: i.Group, Leader: i.ID, Term: i.Term, Transitions: i.Transitions, Priority: i.Priority, Version: i.Version,
		Address: i.Address, Meta: i.Meta, ConnectionParams: i.ConnectionParams, Reason: i.Reason, By: i.By, Why: i.Why,
		Successor: i.Successor, Correlation: i.Correlation,
	}
}

// standing is a group with what is left of the lease. Events do not have that,
// since their reader does not know when they were sent.
func standing(s app.Standing, now time.Time) group {
	g := groupOf(s.LeaderInfo)
	left := int64(0)
	if s.ID != "" {
		left = max(s.Until.Sub(now).Milliseconds(), 0)
	}
	g.Last, g.LeaseLeft = s.Last, &left
	return g
}

// view returns the status for the client, in the answer to a request with what
// it is granted. All of it is of one moment: a term that starts meanwhile must
// not be taken for one that stops.
func (c *candidate) view(answer bool) status {
	// Until the grant is noted, the release must not look for the latest one.
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer {
		st, w, trust := c.granting()
		return c.show(st, w, &times{Trust: trust.Milliseconds(), Lease: c.left().Milliseconds(), Pace: c.pace.Milliseconds()})
	}
	// An event grants nothing, so that nothing is noted.
	st, w := c.e.Status(), c.work
	if w != nil && (w.done || c.why != "" || st.Term != w.term.Number) {
		w = nil
	}
	return c.show(st, w, nil)
}

// show builds the client's status, for callers that hold the lock. It shows a
// term as stopping until the client has reported that it stopped.
func (c *candidate) show(st leader.ElectionStatus, w *work, t *times) status {
	s := status{
		Candidate: c.handle, Group: c.group, InstanceID: c.id, State: st.State, times: t,
		Reason: st.Reason, Barred: st.Barred, Withdrawn: c.why, Connection: st.ConnectionStatus,
	}
	if st.LastError != nil {
		s.LastError = st.LastError.Error()
	}
	if w != nil {
		s.Term, s.Token = w.term.Number, w.term.Token
	} else if c.work != nil && !c.work.done {
		s.StoppingTerm = c.work.term.Number
	}
	if st.LeaderID != "" {
		g := group{Group: c.group, Leader: st.LeaderID, Term: st.LeaderTerm}
		if c.leader.ID == st.LeaderID && c.leader.Term == st.LeaderTerm {
			g = groupOf(c.leader)
		}
		s.Leader = &g
	}
	return s
}

// left returns what is left of the client's lease, for callers that hold the
// lock.
func (c *candidate) left() time.Duration {
	if c.why != "" {
		return 0
	}
	return max(time.Until(c.leaseEnd), 0)
}

// kindOf names a type as JSON does.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "whole number"
	default:
		return "string"
	}
}

// A wish is the body of a campaign.
type wish struct {
	InstanceID            string            `json:"instance_id"`
	LeaseMS               int64             `json:"lease_ms"`
	TTLMS                 int64             `json:"ttl_ms"`
	HeartbeatIntervalMS   int64             `json:"heartbeat_interval_ms"`
	Priority              int               `json:"priority"`
	AllowPriorityTakeover bool              `json:"allow_priority_takeover"`
	MinTenureMS           int64             `json:"min_tenure_ms"`
	Version               string            `json:"version"`
	VersionPolicy         string            `json:"version_policy"`
	Address               string            `json:"address"`
	ConnectionParams      []byte            `json:"connection_params"`
	Meta                  map[string]string `json:"meta"`
}

const (
	// minLease: below it the scheduling of a busy machine alone withdraws
	// candidates.
	minLease = 100 * time.Millisecond
	maxLease = leader.MaxTTL
)

// config returns the configuration that a client wishes for, with the agent's
// values for what it leaves out. All faults are returned together. The agent's
// heartbeat belongs to the agent's TTL: a client with another TTL gets a fifth
// of that.
func (w wish) config(group string, base leader.ElectionConfig, profile leader.Profile) (leader.ElectionConfig, time.Duration, error) {
	cfg := base
	cfg.Group, cfg.InstanceID = group, w.InstanceID
	// The agent's heartbeat is not for another TTL.
	if w.TTLMS != 0 {
		cfg.TTL, cfg.HeartbeatInterval = millis(w.TTLMS), 0
	}
	if w.HeartbeatIntervalMS != 0 {
		cfg.HeartbeatInterval = millis(w.HeartbeatIntervalMS)
	}
	if cfg.TTL > 0 && cfg.HeartbeatInterval == 0 {
		cfg.HeartbeatInterval = cfg.TTL / 5
	}
	cfg.Priority, cfg.AllowPriorityTakeover, cfg.MinTenure = w.Priority, w.AllowPriorityTakeover, millis(w.MinTenureMS)
	cfg.Version, cfg.Address, cfg.ConnectionParams, cfg.Meta = w.Version, w.Address, w.ConnectionParams, w.Meta
	var faults []fault
	switch w.VersionPolicy {
	case "", "any":
	case "older":
		cfg.VersionPolicy = leader.PreferOlder
	case "newer":
		cfg.VersionPolicy = leader.PreferNewer
	default:
		faults = append(faults, fault{"version_policy", w.VersionPolicy, "must be any, older or newer"})
	}
	cfg = cfg.WithProfile(profile)
	lease := millis(w.LeaseMS)
	if w.LeaseMS == 0 {
		lease = max(cfg.TTL, minLease)
	} else if lease < minLease || lease > maxLease {
		faults = append(faults, fault{"lease_ms", fmt.Sprint(w.LeaseMS), fmt.Sprintf("must be from %d to %d", minLease.Milliseconds(), maxLease.Milliseconds())})
	}
	if err := cfg.Validate(); err != nil {
		faults = append(faults, faultsOf(err)...)
	}
	if len(faults) > 0 {
		return cfg, 0, invalid("the description of the candidate is invalid", faults...)
	}
	return cfg, lease, nil
}

// millis returns milliseconds as a duration, or one that breaks every rule
// where there are too many.
func millis(n int64) time.Duration {
	if most := int64(leader.MaxTTL / time.Millisecond * 1000); n > most || n < -most {
		return -time.Millisecond
	}
	return time.Duration(n) * time.Millisecond
}
