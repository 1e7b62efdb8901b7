package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store"
)

// group examines the group that --group names: its leader, the TTL, and the
// candidates that answer. The check paused reports a pause. An unknown group is
// not a failure, because its candidates may not have started yet.
func (e *examination) group(ctx context.Context, st store.Store) {
	ctx, cancel := e.limited(ctx)
	defer cancel()
	l, group := &e.findings, e.cmd.Group
	control, err := leader.NewControlWithStore(st, "leader doctor")
	if err != nil {
		l.Add("group", finding.Info, "", "not examined: %v", err)
		return
	}
	answered := make(chan []rollcall.Candidate, 1)
	go func() {
		all, _ := e.s.RollCall(ctx, group) // without the right no answer is received, which is reported
		answered <- all
	}()
	state, err := control.State(ctx, group)
	entry, err2 := st.Get(ctx, group)
	candidates := <-answered
	err = errors.Join(err, err2)
	if err != nil {
		l.Add("group", finding.Info, "", "not examined: %v", err)
		return
	}
	now := e.s.Standings(ctx, []leader.LeaderInfo{state.Leader})[0]
	barred := 0
	for _, c := range candidates {
		if c.Barred != "" {
			barred++
		}
	}
	const start = "start a candidate, or see why those that run do not lead: their logs, leader get "
	switch {
	case now.Last != "":
		l.Add("group", finding.Fail, start+group, "nobody leads group %q: %q has not renewed since %s, and nobody has taken over%s",
			group, now.Last, now.Renewed.Local().Format(time.DateTime), e.heard(candidates, barred))
	case now.ID == "" && now.Reason == leader.ReasonAbsent:
		l.Add("group", finding.Info, "", "nobody has led group %q yet%s", group, e.heard(candidates, barred))
	case now.ID == "" && !state.Paused:
		l.Add("group", finding.Warn, start+group, "nobody leads group %q (%s)%s", group, now.Reason, e.heard(candidates, barred))
	case now.ID != "":
		l.Add("group", finding.OK, "", "%q leads group %q in term %d%s", now.ID, group, now.Term, e.heard(candidates, barred))
	}
	if barred > 0 && barred == len(candidates) && !state.Paused {
		l.Add("group", finding.Warn, "see leader get "+group, "no candidate of group %q that answers may lead at present", group)
	}
	if ttl := inspect.ReadRecord(entry).TTL; now.ID != "" && ttl != 0 && ttl != e.cmd.TTL {
		l.Add("group", finding.Warn, "give all its candidates one TTL, and name it here: --ttl "+ttl.String(),
			"the leader of group %q has a TTL of %v, and this examination goes by %v", group, ttl, e.cmd.TTL)
	}
}

// heard counts the answers to the roll call, which only NATS has. An unanswered
// roll call does not mean an outage: programs take part only with the hooks of
// package rollcall.
func (e *examination) heard(all []rollcall.Candidate, barred int) string {
	switch n := len(all); {
	case e.s.Elsewhere() != nil:
		return ""
	case n == 0:
		return "; no candidate answers the roll call, in which not all take part"
	case barred == 0:
		return fmt.Sprintf("; %d answer the roll call", n)
	default:
		return fmt.Sprintf("; %d answer the roll call, %d of which may not lead at present", n, barred)
	}
}
