package read

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/archive"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store"
)

// enough bounds the questions to whoever may know more than the records say. A user who may not ask gets no answer.
const enough = time.Second

// gather returns the groups that match a pattern and of which the bucket knows something.
func gather(ctx context.Context, s *app.Session, st store.Store, pattern string) ([]Group, error) {
	infos, err := leader.SnapshotWithStore(ctx, st, pattern)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	groups := make([]Group, 0, len(infos))
	for _, info := range infos {
		if info.ID != "" || info.Reason != leader.ReasonAbsent {
			groups = append(groups, groupOf(info, now))
		}
	}
	newDetails(s).complete(ctx, pattern, groups)
	return groups, nil
}

// details are what records do not say: since when, and why. The history knows best, then the time at which the server stored the
// record, then the leader itself. Each source is given up with its first failure.
type details struct {
	s      *app.Session
	failed map[string]*atomic.Bool
}

const (
	fromRecords  = "records"
	fromRollCall = "roll call"
)

func newDetails(s *app.Session) *details {
	return &details{s, map[string]*atomic.Bool{fromRecords: {}, fromRollCall: {}}}
}

// complete fills in what can be known of the groups.
func (d *details) complete(ctx context.Context, pattern string, groups []Group) {
	ctx, cancel := context.WithTimeout(ctx, 2*enough)
	defer cancel()
	d.fromHistory(ctx, pattern, groups)
	turns := make(chan struct{}, 32)
	var all sync.WaitGroup
	for i := range groups {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			d.try(ctx, fromRecords, &groups[i], d.fromRecord)
			if groups[i].Leader != "" && groups[i].Since.IsZero() {
				d.try(ctx, fromRollCall, &groups[i], d.fromLeader)
			}
		})
	}
	all.Wait()
}

func (d *details) try(ctx context.Context, source string, g *Group, ask func(context.Context, *Group) error) {
	if d.failed[source].Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	if ask(ctx, g) != nil {
		d.failed[source].Store(true)
	}
}

// fromHistory asks the stream, if there is one.
func (d *details) fromHistory(ctx context.Context, pattern string, groups []Group) {
	js, err := d.s.JetStream()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	h, err := archive.Latest(ctx, js, d.s.Bucket, pattern)
	if err != nil && len(h.Advisories) == 0 {
		return
	}
	type key struct {
		group string
		event leader.Event
	}
	latest := make(map[key]advisory.Advisory)
	for _, a := range h.Advisories {
		latest[key{a.Group, a.Event}] = a
	}
	for i := range groups {
		g := groups[i]
		groups[i] = g.withHistory(latest[key{g.Group, leader.EventPromoted}], latest[key{g.Group, leader.EventDemoted}])
	}
}

// fromRecord asks the server when it stored the record.
func (d *details) fromRecord(ctx context.Context, g *Group) error {
	at, revision, err := d.s.StoredAt(ctx, g.Group)
	if err == nil && !at.IsZero() {
		*g = g.withRecord(at, revision, time.Now())
	}
	return err
}

// fromLeader asks the leader.
func (d *details) fromLeader(ctx context.Context, g *Group) error {
	for c, err := range rollcall.Ask(ctx, d.s.NC, d.s.Bucket, g.Group) {
		switch {
		case err != nil:
			return err
		case c.State == leader.StateLeader && c.Instance == g.Leader && c.Term == g.Term:
			*g = g.since(c.Since)
			g.Reason = c.Reason
			return nil
		}
	}
	return nil
}
