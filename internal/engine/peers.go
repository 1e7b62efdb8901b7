package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// peers is what a candidate remembers to notice that another one is configured
// unlike itself, or has its name. Nothing but warnings depends on it.
type peers struct {
	env      *env
	own      []string  // tokens of this candidate's latest claims
	wrote    uint64    // the last revision that this candidate is known to have written
	namesake *namesake // nil before the first
	said     []said    // what was warned of, the latest last
}

// A namesake is the holder of a record under our InstanceID that is not of our
// claim.
type namesake struct {
	token string
	until int64  // when what a predecessor wrote has arrived (monotonic)
	base  uint64 // renewals that may be a predecessor's
}

// said is a cause of a warning that was logged, and its subject.
type said struct {
	cause warning
	id    string
}

type warning uint8

const (
	otherTTL warning = iota
	otherDrift
	sameName
	sameToken
	foreignRecord
)

// The memory is bounded: IDs and tokens of others come without end.
const (
	maxSaid = 32
	maxOwn  = 16
)

// observe takes in a state of the record, and warns of what no candidate of the
// group should write. foreignTTL is the lease of a record that states none, 0
// if unknown.
func (p *peers) observe(seen *machine.Seen, rec *record.Record, foreignTTL time.Duration, now int64) {
	p.compare(seen, rec, now)
	p.meetForeign(seen, foreignTTL)
}

// meetForeign warns of a record that does not contain the length of its lease,
// if only a guess bounds that.
func (p *peers) meetForeign(seen *machine.Seen, foreignTTL time.Duration) {
	if !seen.Foreign() || foreignTTL > 0 {
		return
	}
	p.warn(foreignRecord, "", "No candidate of this group wrote the record: it does not state its lease, which is assumed to be %v, this candidate's TTL."+
		" If its writer trusts it for longer, or it replaced the record of a leader whose TTL is longer, two may lead for a while."+
		" Set ForeignTTL to the longest lease there is.", p.env.cfg.TTL)
}

// compare warns if a holder's settings differ from this candidate's.
func (p *peers) compare(seen *machine.Seen, rec *record.Record, now int64) {
	if seen.Kind != machine.Held || len(rec.ID) > record.MaxName || slices.Contains(p.own, rec.Token) {
		return
	}
	cfg := &p.env.cfg
	if rec.ID == cfg.InstanceID {
		// Its settings may be older than a restart, which is what changes them.
		if p.meet(seen, now, machine.Wait(leadership.Believed(seen.Rec.TTL), cfg.ClockDrift)) {
			p.warn(sameName, rec.ID, "Another process takes part under this candidate's name, %q: a claim that is not of this process was renewed."+
				" Give each candidate a different InstanceID.", rec.ID)
		}
		return
	}
	if theirs := seen.Rec.TTL; theirs > 0 && theirs != cfg.TTL {
		p.warn(otherTTL, rec.ID, "Candidate %q has a TTL of %v, and this one of %v: a candidate that misses the record of the longer lease may lead before it ends."+
			" Use one TTL per group.", rec.ID, theirs, cfg.TTL)
	}
	if theirs := float64(rec.Drift); theirs > 0 && theirs != cfg.ClockDrift {
		p.warn(otherDrift, rec.ID, "Candidate %q has a ClockDrift of %v, and this one of %v: two can lead at once when clocks differ by more than the smaller one allows."+
			" Use one ClockDrift per group.", rec.ID, theirs, cfg.ClockDrift)
	}
}

// meet takes in a record under our name that is not of our claim, and reports
// whether another process must have written it while this one was running.
//
// A record that was written on top of our own write is proof of that, since an
// earlier compare-and-swap could not have been applied. Any other record may be
// our predecessor's: its latest renewal, a renewal that was under way when it
// died, or older ones from a lagging replica. All of those arrive within a
// lease. So two renewals past that content are another process's.
//
// Where a store forgets, revisions come again, and with them what a predecessor
// wrote: the warning may be false there.
func (p *peers) meet(seen *machine.Seen, now int64, lease time.Duration) bool {
	if p.wrote > 0 && seen.Rev > p.wrote {
		return true
	}
	if p.namesake == nil {
		p.namesake = &namesake{}
	}
	n := p.namesake
	switch {
	case seen.Rec.Token != n.token:
		*n = namesake{token: seen.Rec.Token, until: now + int64(lease), base: seen.Rec.Renewal}
	case now < n.until:
		n.base = max(n.base, seen.Rec.Renewal)
	}
	return seen.Rec.Renewal >= n.base+2
}

func (p *peers) stepped(before past, s *machine.State) {
	if token := s.Grant.Token; token != before.term.Token {
		p.own = append(p.own[max(0, len(p.own)-maxOwn+1):], token)
	}
	p.wrote = max(p.wrote, s.Grant.Rev)
	deposed := before.phase == machine.Holding && s.Phase != machine.Holding && s.Exit.Reason == machine.ReasonSuperseded
	if deposed && s.View.Kind == machine.Held && s.View.Rec.Token == before.term.Token {
		// Only a process with a copy of our memory has the token.
		p.warn(sameToken, s.View.Rec.ID, "Another process has renewed with the token of this candidate, %q: this machine was cloned, or restored from a snapshot, while"+
			" it held the record. Restart the programs of the copy, and give them InstanceIDs of their own.", s.View.Rec.ID)
	}
}

// warn reports a warning about a candidate, once for each cause.
func (p *peers) warn(cause warning, id, format string, args ...any) {
	one := said{cause, id}
	if slices.Contains(p.said, one) {
		return
	}
	p.said = append(p.said[max(0, len(p.said)-maxSaid+1):], one)
	if text := fmt.Sprintf(format, args...); p.env.warns(text) {
		p.env.report.tell(NoteWarning, text)
	}
}
