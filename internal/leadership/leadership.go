// Package leadership determines who leads a group, as read from its record.
//
// The runtime of a candidate, the role manager, observers and the operator's
// side all speak of it in these values. The public package converts them once.
package leadership

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// MaxTTL bounds the lease that anybody is believed to have, and so the lease
// that a configuration may ask for.
const MaxTTL = time.Hour

// DefaultDrift is how far clock rates are assumed to differ by default. chrony
// may slew a clock by 8.3 % (maxslewrate).
const DefaultDrift = 0.10

// MaxDrift bounds the drift that a configuration may state, and so the one that
// anybody is believed to have.
const MaxDrift = 0.3

// ErrInvalid is leader.ErrInvalidConfig.
var ErrInvalid = errors.New("leader: invalid configuration")

// The reasons that the core does not know: they come from the runtime, the role
// manager and operators.
const (
	ReasonFull      machine.Reason = "full"
	ReasonCrashed   machine.Reason = "crashed"
	ReasonClosed    machine.Reason = "closed"
	ReasonVacated   machine.Reason = "vacated"
	ReasonForgotten machine.Reason = "forgotten"
)

// A Term is one term of a leader. The zero value means no term.
type Term struct {
	Number uint64
	Token  string
}

// IsZero reports whether t is the zero Term.
func (t Term) IsZero() bool { return t == Term{} }

// Correlation is the correlation of the term's token.
func (t Term) Correlation() string { return Correlation(t.Token) }

// Hash returns a short hash of a token, which may be shown where the token may
// not.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:4])
}

// Correlation identifies a term in logs, metrics and traces: a short hash of
// its token, or "" without one. All candidates derive the same.
func Correlation(token string) string {
	if token == "" {
		return ""
	}
	return Hash(token)
}

// Info is who leads a group, or why nobody does. The fields match
// leader.LeaderInfo.
type Info struct {
	Group       string
	ID          string
	Term        uint64
	Transitions uint64
	Correlation string
	Priority    int
	Version     string
	Address     string
	Params      *record.Params
	Meta        map[string]string
	Until       time.Time
	Acquired    record.Moment
	Renewed     record.Moment
	Reason      machine.Reason
	By          string
	Why         string
	Successor   string
	// Rev is the revision of the entry that shows this, where one was read.
	Rev uint64
}

// Of returns who leads by an entry that arrived at now, and what the core sees
// in it.
func Of(group string, e store.Entry, now time.Time) (Info, machine.Seen) {
	seen, r := record.Read(e)
	info := Info{
		Group: group, Term: seen.Term(), Transitions: uint64(r.Transitions), Correlation: Correlation(seen.Rec.Token),
		Acquired: r.Acquired, Renewed: r.Renewed, Rev: e.Revision,
	}
	switch seen.Kind {
	case machine.Held:
		info.ID, info.Priority, info.Version = r.ID, r.Priority, r.Version
		info.Address, info.Params, info.Meta = r.Address, r.Params, r.Meta
		info.Until = now.Add(machine.Wait(Believed(seen.Rec.TTL), drift(r)))
	case machine.Vacant:
		info.Reason, info.By, info.Why, info.Successor = machine.Reason(r.Reason), r.By, r.Why, r.Successor
	case machine.Bare:
		info.Reason = machine.ReasonDeleted
	case machine.Malformed:
		info.Reason = machine.ReasonOverwritten
	default:
		info.Reason = machine.ReasonAbsent
	}
	return info, seen
}

// Believed is the lease that a record which states ttl is credited with by
// those who know nothing of its group's settings.
func Believed(ttl time.Duration) time.Duration {
	if ttl <= 0 || ttl > MaxTTL {
		return MaxTTL
	}
	return ttl
}

// drift is the one by which the candidates of a group wait for the holder of a
// record: that which it states, since all of a group have the same.
func drift(r record.Record) float64 {
	if r.Drift <= 0 || r.Drift > MaxDrift {
		return DefaultDrift
	}
	return float64(r.Drift)
}

// Lease is for how long a candidate that sees a record has to leave it alone,
// and 0 if the record does not contain that.
func Lease(seen machine.Seen, r record.Record) time.Duration {
	if seen.Kind != machine.Held || seen.Rec.TTL <= 0 {
		return 0
	}
	return machine.Wait(min(seen.Rec.TTL, MaxTTL), max(DefaultDrift, float64(r.Drift)))
}

// AsOf returns the info as it reads at now: a lease that has run out names
// nobody.
func (i Info) AsOf(now time.Time) Info {
	if i.ID == "" || now.Before(i.Until) {
		return i
	}
	return Info{
		Group: i.Group, Term: i.Term, Transitions: i.Transitions, Correlation: i.Correlation, Acquired: i.Acquired, Renewed: i.Renewed,
		Reason: machine.ReasonExpired, Rev: i.Rev,
	}
}

// Same reports whether o has the same leader, or the same reason why nobody
// leads.
func (i Info) Same(o Info) bool {
	return i.ID == o.ID && i.Term == o.Term && i.Reason == o.Reason && i.By == o.By && i.Why == o.Why && i.Successor == o.Successor
}

// String describes in one line for people who leads, or why nobody does.
func (i Info) String() string {
	if i.ID != "" {
		return fmt.Sprintf("%q leads group %q in term %d", i.ID, i.Group, i.Term)
	}
	return fmt.Sprintf("nobody leads group %q: %s", i.Group, i.Vacancy())
}

// Vacancy describes why nobody leads.
func (i Info) Vacancy() string {
	var b strings.Builder
	b.WriteString(cmp.Or(Words(string(i.Reason)), "unknown"))
	if i.Term != 0 {
		fmt.Fprintf(&b, ", after term %d", i.Term)
	}
	if i.By != "" {
		fmt.Fprintf(&b, ", by %q", i.By)
	}
	if i.Why != "" {
		fmt.Fprintf(&b, " (%s)", Words(i.Why))
	}
	if i.Successor != "" {
		fmt.Fprintf(&b, ", for %q to take over", i.Successor)
	}
	return b.String()
}

// Words returns a text of a record for use in a line of text: unchanged if all
// of it is printable, and quoted otherwise.
func Words(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// VacancyAfter returns the vacancy between the leader that was known and the
// one whose record is seen, if there was an unwritten one. Earlier versions
// hand over without one; the record of the successor contains why its
// predecessor left, so that observers find the reason where it always is.
func VacancyAfter(known Info, seen machine.Seen) (vacancy Info, ok bool) {
	prior := seen.Rec.Prior
	if known.ID == "" || seen.Kind != machine.Held || prior.Reason == "" || prior.Term != known.Term || seen.Term() == known.Term {
		return Info{}, false
	}
	return Info{
		Group: known.Group, Term: known.Term, Transitions: known.Transitions, Correlation: known.Correlation,
		Acquired: known.Acquired, Renewed: known.Renewed, Reason: prior.Reason, By: known.ID,
	}, true
}
