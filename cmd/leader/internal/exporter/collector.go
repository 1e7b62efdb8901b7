package exporter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store"
)

// maxLabel is how many bytes of what others wrote a label holds.
const maxLabel = 128

// A metric is one of those that the exporter serves.
type metric int

const (
	known metric = iota
	info
	term
	age
	silence
	remaining
	changes
	vacant
	paused
	malformed
	memberUp
	memberLag
	memberMemory
	groups
	ignored
	connected
	complete
	failures
	metricCount
)

// A definition is how a metric is described.
type definition struct {
	name, help string
	counter    bool
	observer   bool // it is of the exporter and not of a group
	labels     []string
}

// define describes a metric. The names of package leaderprom, which are the
// candidates' own view, are none of these.
func define(m metric) definition {
	return [metricCount]definition{
		known:        {name: "election_group_leader_known", help: "1 if somebody leads as far as can be seen from here, 0 if nobody does; absent while only a record of unknown age was found, until its leader renews it or its lease has run out."},
		info:         {name: "election_group_leader_info", help: "Always 1; who leads, and its own description. Absent as election_group_leader_known is.", labels: []string{"leader", "address", "version"}},
		term:         {name: "election_group_term", help: "Number of the term or, if nobody leads, of the last term that was seen."},
		age:          {name: "election_group_state_age_seconds", help: "For how long the leader has led or, if nobody leads, nobody has; absent if that began before it was seen."},
		silence:      {name: "election_group_last_renewal_age_seconds", help: "How long ago the leader renewed last: since its record arrived here or, of one that was found, by its content; absent if none was seen."},
		remaining:    {name: "election_group_lease_remaining_seconds", help: "How long nobody else leads, if no renewal follows and nobody releases; 0 if nobody leads. Absent as election_group_leader_known is."},
		changes:      {name: "election_group_leader_changes_total", help: "Leaders that followed another, by the reason why the other left; unseen if the reason was not received.", counter: true, labels: []string{"reason"}},
		vacant:       {name: "election_group_vacant", help: "1 while nobody leads, by reason; absent if the group is paused and has no record. The series is missing while somebody leads.", labels: []string{"reason"}},
		paused:       {name: "election_group_paused", help: "1 while an operator's pause keeps everybody from leading, 0 otherwise."},
		malformed:    {name: "election_group_malformed_records_total", help: "Records that could not be read.", counter: true},
		memberUp:     {name: "election_group_member_up", help: "1 if a member of the quorum (--store quorum://…) answers for the group, also by a refusal, 0 if not; absent if too many groups had to be asked about.", labels: []string{"member"}},
		memberLag:    {name: "election_group_member_lag", help: "How many versions the newest member has more; absent if the member does not answer or has no memory.", labels: []string{"member"}},
		memberMemory: {name: "election_group_member_memory", help: "1 if the member has memory of the group, 0 if it never had its record, forgot it, or refuses to show it; absent if it does not answer.", labels: []string{"member"}},
		groups:       {name: "election_observer_groups", help: "Groups that are followed.", observer: true},
		ignored:      {name: "election_observer_ignored_groups", help: "Groups that are not shown, since there are too many; no more than 2000 of them are counted.", observer: true},
		connected:    {name: "election_observer_connected", help: "1 while this exporter is connected to NATS; if not, its metrics of groups are old.", observer: true},
		complete:     {name: "election_observer_complete", help: "1 if all that the bucket holds was read; 0 if groups show up with their next renewal only.", observer: true},
		failures:     {name: "election_observer_failures_total", help: "How often watching the bucket failed.", counter: true, observer: true},
	}[m]
}

func (d definition) allLabels() []string {
	if d.observer {
		return append([]string{"bucket"}, d.labels...)
	}
	return append([]string{"bucket", "role"}, d.labels...)
}

// describe lists the metrics for people.
func describe() string {
	var b strings.Builder
	for m := range metricCount {
		d := define(m)
		name := d.name
		if len(d.labels) > 0 {
			name += "{" + strings.Join(d.labels, ",") + "}"
		}
		// Indented lines are not folded by readers of the help.
		help := output.Screen{Width: 72}.Wrap("      "+d.help, "      ")
		fmt.Fprintf(&b, "  %s\n%s\n", name, help)
	}
	return b.String()
}

// A collector is what the registry sees of a board.
type collector struct {
	board     *board.Board
	store     store.Store
	bucket    string
	connected func() bool
	all       bool // with the groups that are marked as gone
}

func (d definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.name, d.help, d.allLabels(), nil)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for m := range metricCount {
		descs <- define(m).desc()
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := scrape{bucket: c.bucket, now: time.Now(), out: out}
	for m := range metricCount {
		s.descs[m] = define(m).desc()
	}
	all := c.board.Since(0)
	shown := slices.DeleteFunc(all.Changed, func(g board.Group) bool { return !c.all && g.Forgotten() })
	for i, members := range c.members(shown) {
		s.group(shown[i])
		s.members(shown[i].Group, members)
	}
	s.put(groups, float64(all.Count), c.bucket)
	s.put(ignored, float64(all.State.Ignored), c.bucket)
	s.put(connected, number(c.connected()), c.bucket)
	s.put(complete, number(all.State.Complete), c.bucket)
	s.put(failures, float64(all.State.Failures), c.bucket)
}

// members asks the members of a quorum, if the store is one, what they hold of
// each group. It has no answer for a group whose turn comes too late: a scrape
// must end in time.
func (c *collector) members(groups []board.Group) [][]app.Member {
	ctx, cancel := context.WithTimeout(context.Background(), membersPatience)
	defer cancel()
	found := make([][]app.Member, len(groups))
	var next atomic.Int64
	var asking sync.WaitGroup
	for range membersAtOnce {
		asking.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(groups); i = int(next.Add(1)) - 1 {
				// Members that had no time to answer may be well.
				if members, err := app.Members(ctx, c.store, groups[i].Group); err == nil && ctx.Err() == nil {
					found[i] = members
				}
			}
		})
	}
	asking.Wait()
	return found
}

const (
	// membersPatience is below Prometheus' default timeout of a scrape, 10 s, and
	// above the 2 s that a quorum gives a member.
	membersPatience = 5 * time.Second
	// membersAtOnce is how many groups are asked about at a time.
	membersAtOnce = 16
)

// A scrape is one collection.
type scrape struct {
	bucket string
	now    time.Time
	descs  [metricCount]*prometheus.Desc
	out    chan<- prometheus.Metric
}

func (s *scrape) put(m metric, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if define(m).counter {
		kind = prometheus.CounterValue
	}
	s.out <- prometheus.MustNewConstMetric(s.descs[m], kind, value, labels...)
}

// group puts the metrics of one group.
func (s *scrape) group(g board.Group) {
	led := g.ID != ""
	// A leader whose record was found may have died at any time before. If it
	// were reported as leading, the end of its lease would be a false alarm.
	seen := !led || g.Confirmed
	put := func(m metric, value float64, labels ...string) {
		s.put(m, value, append([]string{s.bucket, g.Group}, labels...)...)
	}
	if seen {
		put(known, number(led))
	}
	put(term, float64(g.Latest))
	if since := g.Since(); !since.IsZero() {
		put(age, max(0, s.now.Sub(since).Seconds()))
	}
	if at := g.LastRenewal(); !at.IsZero() {
		put(silence, max(0, s.now.Sub(at).Seconds()))
	}
	put(paused, number(g.Paused))
	put(malformed, float64(g.Malformed))
	switch {
	case !led:
		put(vacant, 1, string(g.Reason))
		put(remaining, 0)
	case seen:
		put(info, 1, label(g.ID), label(g.Address), label(g.Version))
		put(remaining, max(0, g.Until.Sub(s.now).Seconds()))
	}
	for reason, n := range g.Changes {
		put(changes, float64(n), string(reason))
	}
}

// members puts the metrics of a quorum's members in one group.
func (s *scrape) members(group string, members []app.Member) {
	for _, m := range members {
		labels := []string{s.bucket, group, label(m.Name)}
		s.put(memberUp, number(m.State != app.MemberAway), labels...)
		if m.State == app.MemberAway {
			continue
		}
		s.put(memberMemory, number(m.Memory), labels...)
		if m.Memory {
			s.put(memberLag, float64(m.Lag), labels...)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// label makes a label's value of what others wrote. Prometheus refuses the
// whole scrape for one that is no UTF-8.
func label(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= maxLabel {
		return s
	}
	cut := maxLabel
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
