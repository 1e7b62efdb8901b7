// Package record reads and writes what an election keeps in its registers: the
// record of a group, the vacancy that takes its place, and the control request.
//
// The format is JSON. docs/reference/protocol.md describes every field; the ones of the
// original payload (id, token, priority, meta) have the meaning that other
// programs already give them. Unknown fields change nothing. Unreadable content
// is Malformed, never an error that stops anybody.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// A Record is the content of a group's register, as JSON.
type Record struct {
	// ID is the holder's InstanceID. A record without it is a vacancy.
	ID string `json:"id,omitempty"`
	// Token identifies the claim. It orders nothing.
	Token string `json:"token,omitempty"`
	// Priority is the holder's.
	Priority int `json:"priority,omitempty"`
	// Meta is the holder's description of itself.
	Meta map[string]string `json:"meta,omitempty"`
	// TTL is the lease's length in milliseconds, as its holder counts it.
	TTL int64 `json:"ttl,omitempty"`
	// Term is the revision of the acquiring write, absent from that write
	// itself.
	Term uint64 `json:"term,omitempty"`
	// Renewal counts the renewals of this claim.
	Renewal uint64 `json:"renewal,omitempty"`
	// Nonce is a number that was drawn for this write. By it a copy of the
	// holder's machine, which has its token too, knows a record that it did not
	// write.
	Nonce uint64 `json:"nonce,omitempty"`
	// Settled, of a vacancy: no earlier leader than its writer can still lead.
	// It is here since a candidate has no room for another word.
	Settled bool `json:"settled,omitempty"`
	// Address is where the leader's clients reach it.
	Address string `json:"address,omitempty"`
	// Params are what clients need to connect, in addition to the address. Nil
	// means unknown.
	Params *Params `json:"params,omitempty"`

	// Drift is how far the holder assumes the rate of a clock to be off. Zero
	// means unknown: candidates did not always write it.
	Drift Fraction `json:"drift,omitempty"`

	// Version is the version of the holder's program.
	Version string `json:"version,omitempty"`
	// Standings are the standings of the group's candidates, as far as its
	// leaders have heard of them.
	Standings []Standing `json:"standings,omitempty"`

	// Transitions is how often the group had got another leader when this term
	// began, as far as its records show: 0 in the first, and one more in each
	// than in the record that it replaced. A vacancy keeps it.
	Transitions Count `json:"transitions,omitempty"`

	// Acquired is when the term began, in a vacancy the one that ended, and
	// Renewed when this was written. Both are of the writer's wall clock, and
	// for people alone: nobody compares that clock with another.
	Acquired Moment `json:"acquired,omitempty"`
	Renewed  Moment `json:"renewed,omitempty"`

	// Prior is the term before, if its holder gave the record to this one and
	// wrote no vacancy. Earlier versions wrote it; it is only read.
	Prior *Prior `json:"prior,omitempty"`

	// Of a vacancy: why the holder left, as a Reason, who asked for it, why in
	// the requester's words, and who is asked to take over.
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"`
	Why       string `json:"why,omitempty"`
	Successor string `json:"successor,omitempty"`
}

// Params are bytes of which nothing is known here: base64 in JSON.
type Params []byte

// UnmarshalJSON ignores text that is not base64: no part of the election
// depends on it, so it must not cost the group a wait.
func (p *Params) UnmarshalJSON(b []byte) error {
	var v []byte
	if json.Unmarshal(b, &v) != nil {
		v = nil
	}
	*p = v
	return nil
}

// A Fraction is a number between 0 and 1, both excluded, or zero, which means
// unknown.
type Fraction float64

// UnmarshalJSON reads a value that is not a fraction as zero: candidates use
// the number only for a warning, which must not cost the group a wait.
func (f *Fraction) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || v <= 0 || v >= 1 {
		v = 0
	}
	*f = Fraction(v)
	return nil
}

// A Count is a number that only people are shown.
type Count uint64

// UnmarshalJSON reads a value that is not a count as zero, which must not cost
// the group a wait: other programs may have a field of the name.
func (c *Count) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil || v > maxNumber {
		v = 0
	}
	*c = Count(v)
	return nil
}

// A Moment is a time of somebody's wall clock in milliseconds since 1970 (UTC),
// 0 if it is not known.
type Moment uint64

// MaxMoment is the last moment that counts as known. It is in the year 6429:
// text for times, such as JSON, has no room beyond the year 9999.
const MaxMoment Moment = 1 << 47

// MomentOf returns the moment of a time, in whole milliseconds.
func MomentOf(t time.Time) Moment { return momentOf(t.UnixMilli()) }

// MomentAt returns the moment so many nanoseconds after 1970.
func MomentAt(ns int64) Moment { return momentOf(ns / int64(time.Millisecond)) }

func momentOf(ms int64) Moment {
	if ms < 0 || ms > int64(MaxMoment) {
		return 0
	}
	return Moment(ms)
}

// Time returns the time, which is zero if it is not known.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// UnmarshalJSON reads a value that is not a moment as unknown. Nothing depends
// on it, so it must not cost the group a wait.
func (m *Moment) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil || v > uint64(MaxMoment) {
		v = 0
	}
	*m = Moment(v)
	return nil
}

// A Prior describes how a term ended that left no vacancy.
type Prior struct {
	Term   uint64 `json:"term"`
	Reason string `json:"reason"`
}

// A Standing is by what a candidate is preferred to others or they to it.
type Standing struct {
	Priority int    `json:"priority,omitempty"`
	Version  string `json:"version,omitempty"`
	// Age counts the terms since a candidate of this standing was last heard
	// of.
	Age int `json:"age,omitempty"`
}

// A Control is the content of a group's control register, as JSON. Its parts
// are independent of each other: a writer of one keeps the others as they are.
type Control struct {
	Request
	// Paused, if there, keeps everybody from campaigning.
	Paused *Pause `json:"paused,omitempty"`
	// Stand is the latest candidate that made its standing known.
	Stand *Stand `json:"stand,omitempty"`
	// Ran is the last run of a program that runs once in a period. It is the
	// content of the run register (see RanKey). The control register has it, too,
	// for hosts of versions before the run register.
	Ran *Ran `json:"ran,omitempty"`
	// Unknown are the other fields, as a JSON object, or "". A later version of
	// this program may have written them, and who changes the record keeps
	// them, too.
	Unknown string `json:"-"`
}

// A Request asks the holder to leave.
type Request struct {
	// Op is what the holder is asked for: see the constants. Without it nothing
	// is asked, nor with one of which nothing is known.
	Op string `json:"op,omitempty"`
	// Term is the term that the request is meant for. Later terms ignore it.
	Term uint64 `json:"term,omitempty"`
	// Successor is the candidate to hand over to, for OpTransfer and OpBalance.
	Successor string `json:"successor,omitempty"`
	// Have is how many groups the successor leads, for OpBalance.
	Have int `json:"have,omitempty"`
	// By is who asks, and Reason why, for people.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// A Pause is who paused a group, and why.
type Pause struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Unknown is as in Control.
	Unknown string `json:"-"`
}

// A Stand is how a candidate makes its standing known to the holder of a term.
type Stand struct {
	ID       string `json:"id"`
	Term     uint64 `json:"term"`
	Priority int    `json:"priority,omitempty"`
	Version  string `json:"version,omitempty"`
	// Takeover asks the holder to hand over, if the standing is preferred to
	// its own.
	Takeover bool `json:"takeover,omitempty"`
}

// A Ran is a run of a program that one host of all begins once in a period.
type Ran struct {
	// Begin is when the period began, in milliseconds since 1970 (UTC). A run
	// of that period or an earlier one does not start any more.
	Begin int64 `json:"begin"`
	// ID is the candidate that began it, and Term its term.
	ID   string `json:"id,omitempty"`
	Term uint64 `json:"term,omitempty"`
}

// The operations of a Request.
const (
	OpStepDown = "step-down"
	OpTransfer = "transfer"
	// OpBalance is OpTransfer at the request of an instance that leads fewer
	// groups than the holder.
	OpBalance = "balance"
)

// ControlKey is the name of the control register that belongs to a group.
func ControlKey(group string) string { return "_ctl." + group }

// RanPrefix begins no group's name: RanKey would otherwise return the control
// register of another group.
const RanPrefix = "_ran."

// RanKey is the name of the run register that belongs to a group. Its content
// is a Control of which only Ran counts. The name begins like those of control
// registers, which observers of all versions skip. It is longer than
// store.MaxKey for the longest groups.
func RanKey(group string) string { return ControlKey(RanPrefix + group) }

// Encode returns the record's bytes, or an error if they exceed what every
// store takes.
func (r Record) Encode() ([]byte, error) {
	b, _, err := encodeRecord(&r)
	return b, err
}

// Encode returns the control record's bytes, or an error if they exceed what
// every store takes. Fields of which nothing is known are left out if there is
// no room for them.
func (c Control) Encode() ([]byte, error) {
	b, err := encode(c)
	if err == nil {
		return b, nil
	}
	c.Unknown = ""
	if c.Paused != nil {
		c.Paused = &Pause{By: c.Paused.By, Reason: c.Paused.Reason}
	}
	return encode(c)
}

// encodeRecord is Encode, and reports whether decode makes the very record of
// what it returns.
func encodeRecord(r *Record) (b []byte, exact bool, err error) {
	if b, exact = appendExact(make([]byte, 0, usual), r); exact {
		b, err = bounded(b)
		return b, true, err
	}
	b, err = encode(*r)
	return b, false, err
}

// usual is the room for a record with a short description of its holder.
const usual = 320

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return bounded(b)
}

func bounded(b []byte) ([]byte, error) {
	if len(b) > store.MaxValue {
		return nil, fmt.Errorf("%d bytes of JSON, more than the %d that every store takes", len(b), store.MaxValue)
	}
	return b, nil
}

// Read interprets a group's register. The Record is zero unless the kind is
// Held or Vacant.
func Read(e store.Entry) (seen machine.Seen, r Record) {
	read(&e, &seen, &r)
	return seen, r
}

// read is Read into seen and r, whatever they hold.
func read(e *store.Entry, seen *machine.Seen, r *Record) {
	*seen, *r = machine.Seen{Rev: e.Revision}, Record{}
	switch {
	case e.Revision == 0:
		seen.Kind = machine.Absent
	case len(e.Value) == 0 && e.Tombstone:
		seen.Kind = machine.Bare
	case decode(e.Value, r) != nil:
		seen.Kind, *r = machine.Malformed, Record{}
	default:
		interpret(e, seen, r)
	}
}

// interpret determines the kind of an entry whose value is the record r.
func interpret(e *store.Entry, seen *machine.Seen, r *Record) {
	switch {
	case r.ID != "":
		seen.Kind = machine.Held
	case e.Tombstone:
		seen.Kind = machine.Vacant
	default:
		// A vacancy permits a candidate to lead at once. This library writes
		// vacancies as tombstones; a value without an id is foreign data.
		seen.Kind, *r = machine.Malformed, Record{}
		return
	}
	// A term is the revision of its first write. Observers, and everything that
	// remembers the largest term, would take a larger number for later than all
	// terms that follow.
	r.Term = min(r.Term, e.Revision)
	core(&seen.Rec, r)
}

var (
	errTooLong   = errors.New("longer than a record may be")
	errNoRecord  = errors.New("neither a holder's record nor a vacancy")
	errBadNumber = errors.New("a number out of its range")
)

// decode parses b into r, which is zero.
func decode(b []byte, r *Record) error {
	if len(b) > store.MaxValue {
		return errTooLong
	}
	if err := json.Unmarshal(b, r); err != nil {
		return err
	}
	// Standings only order who goes first, and the term before is history: what
	// is wrong with them must not cost the group a wait.
	if p := r.Prior; p != nil && !p.valid() {
		r.Prior = nil
	}
	if p := r.Params; p != nil && len(*p) == 0 {
		r.Params = nil
	}
	if !ValidVersion(r.Version) {
		r.Version = ""
	}
	r.By, r.Why, r.Successor = upTo(MaxName, r.By), upTo(MaxWhy, r.Why), upTo(MaxName, r.Successor)
	r.Standings = slices.DeleteFunc(r.Standings, func(s Standing) bool { return !s.valid() })
	r.Standings = slices.Clip(r.Standings[:min(len(r.Standings), MaxStandings)])
	if len(r.Standings) == 0 {
		r.Standings = nil
	}
	return check(r)
}

// upTo returns s unless it is longer than most bytes: no candidate writes that.
func upTo(most int, s string) string {
	if len(s) > most {
		return ""
	}
	return s
}

// MaxReason is the length of the longest reason that is believed, in bytes.
const MaxReason = 32

func (p *Prior) valid() bool { return p.Term <= maxNumber && len(p.Reason) <= MaxReason }

func (s Standing) valid() bool { return s.Age >= 0 && ValidVersion(s.Version) }

// MaxStandings is how many standings a record holds.
const MaxStandings = 8

// ValidVersion reports whether a record may contain v: at most MaxVersion
// letters, digits and .+-_, which are one byte each in JSON.
func ValidVersion(v string) bool {
	return len(v) <= MaxVersion && !strings.ContainsFunc(v, func(r rune) bool {
		return r != '.' && r != '+' && r != '-' && r != '_' &&
			(r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// maxNumber bounds terms, renewals and durations: beyond 2^53 other JSON
// readers lose digits, and a duration in milliseconds could overflow.
const maxNumber = 1 << 53

func check(r *Record) error {
	switch {
	case r.ID == "" && (r.Reason == "" || len(r.Reason) > MaxReason):
		// A vacancy contains its reason, in a word. Any other JSON object
		// without an id is foreign data: taking "{}" for a vacancy would permit
		// a candidate to lead at once.
		return errNoRecord
	case r.TTL < 0 || r.TTL > maxNumber || r.Term > maxNumber || r.Renewal > maxNumber || r.Nonce > maxNumber:
		return errBadNumber
	}
	return nil
}

// core sets c, which is zero, to what the core knows of the record.
func core(c *machine.Record, r *Record) {
	c.ID, c.Token, c.TTL, c.Term, c.Renewal, c.Nonce = r.ID, r.Token, ttl(r.TTL), r.Term, r.Renewal, r.Nonce
	c.Priority, c.Settled = r.Priority, r.Settled && r.ID == ""
	c.Reason, c.By, c.Why, c.Successor = machine.Reason(r.Reason), r.By, r.Why, r.Successor
	if p := r.Prior; p != nil {
		c.Prior = machine.Prior{Term: p.Term, Reason: machine.Reason(p.Reason)}
	}
}

// ttl converts without overflow; the readers of a TTL clamp it anyway.
func ttl(ms int64) time.Duration {
	const most = int64(24 * time.Hour / time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

// An About is what a record contains about its writer beyond what the core has
// to know.
type About struct {
	Meta        map[string]string
	Address     string
	Params      *Params
	Version     string
	Drift       float64
	Standings   []Standing
	Transitions uint64
	Acquired    Moment
	Renewed     Moment
}

// Of returns the record that the core wants written.
func Of(c machine.Record, about About) (r Record) {
	set(&r, &c, &about)
	return r
}

func set(r *Record, c *machine.Record, about *About) {
	*r = Record{
		ID: c.ID, Token: c.Token, Priority: c.Priority, TTL: c.TTL.Milliseconds(), Term: c.Term, Renewal: c.Renewal, Nonce: c.Nonce,
		Reason: string(c.Reason), By: c.By, Why: c.Why, Successor: c.Successor, Standings: about.Standings,
		Transitions: Count(about.Transitions), Acquired: about.Acquired, Renewed: about.Renewed, Settled: c.Settled,
	}
	if c.ID != "" {
		r.Meta, r.Address, r.Params = about.Meta, about.Address, about.Params
		r.Version, r.Drift = about.Version, Fraction(about.Drift)
	}
}

// ReadControl interprets a group's control register. A deleted or missing
// register asks for nothing. ok is false if the content is not a control
// record: then nothing is known to have changed.
func ReadControl(e store.Entry) (c Control, ok bool) {
	if e.Revision == 0 || len(e.Value) == 0 {
		return Control{}, e.Revision == 0 || e.Tombstone
	}
	if len(e.Value) > store.MaxValue || json.Unmarshal(e.Value, &c) != nil {
		return Control{}, false
	}
	if c.Ran != nil && !c.Ran.valid() {
		c.Ran = nil // elections ignore it, and obey the rest
	}
	return c, c.check()
}

func (c Control) check() bool {
	p, s := c.Paused, c.Stand
	switch {
	case !c.Request.check():
		return false
	case p != nil && (len(p.By) > MaxName || len(p.Reason) > MaxWhy):
		return false
	case s != nil && (s.ID == "" || len(s.ID) > MaxName || s.Term > maxNumber || !ValidVersion(s.Version)):
		return false
	}
	return true
}

func (r *Ran) valid() bool {
	return r.Begin >= 0 && r.Begin <= int64(MaxMoment) && len(r.ID) <= MaxName && r.Term <= maxNumber
}

func (r Request) check() bool {
	if len(r.Op) > MaxName || len(r.By) > MaxName || len(r.Successor) > MaxName || len(r.Reason) > MaxWhy || r.Term > maxNumber {
		return false
	}
	switch r.Op {
	case OpTransfer, OpBalance:
		return r.Successor != "" && r.Have >= 0
	default:
		return true
	}
}

// Known reports whether the request asks for something that this program knows
// how to do.
func (r Request) Known() bool { return r.Op == OpStepDown || r.Op == OpTransfer || r.Op == OpBalance }

// The longest names, reasons and versions of a control record, in bytes. They
// go into the vacancy that answers it: one that outgrew what stores take would
// let the release fail.
const (
	MaxName    = 256
	MaxWhy     = 512
	MaxVersion = 64
)
