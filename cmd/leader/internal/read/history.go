package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/archive"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store"
)

// HistoryCommand is the family of the commands about the past.
type HistoryCommand struct {
	Show    HistoryShowCommand    `cmd:"" default:"withargs" help:"Who led a group when, and why that changed."`
	Enable  HistoryEnableCommand  `cmd:"" help:"Make the stream that keeps the history of a bucket."`
	Disable HistoryDisableCommand `cmd:"" help:"Delete that stream, with the history."`
}

// HistoryShowCommand shows who led when.
type HistoryShowCommand struct {
	app.Target
	output.Format

	Group string `arg:"" help:"The group. For a group that is named like a command: leader history show enable."`
	At    string `placeholder:"TIME" help:"Who led then? 14:03:07, 2026-11-20T14:03:07Z, or 5m for five minutes ago."`
	Since string `placeholder:"TIME" help:"Only terms that lasted until then or longer; times as for --at."`
}

// Help describes the command.
func (HistoryShowCommand) Help() string {
	return `Shows the terms of a group out of the advisories that its candidates publish and a stream keeps: make it with leader history enable, and
let the candidates publish (--advisories of this command's, the hooks of package advisory in a program).

Times are by the candidates' clocks. The end of a term whose leader crashed is when the first other candidate noticed. A history may have
gaps: it begins when the stream was made or where the oldest advisories have been dropped, and advisories may be lost; what is known of
that is printed on the standard error, and in the fields complete_since and missing.

--at answers with one line who led at a time. A time of the day is today's, or yesterday's if it is yet to come; without a zone it is local
time.

With -o json there is one object: bucket, group, stream, complete_since, missing, and terms with leader, term, began, ended, reason, by, why,
correlation; with --at also at, led and by the term of that time: at_term.

Exit status: 0; 4 if the history knows nothing of the group, or nobody led at that time as far as it knows; 5 if no stream keeps a
history, or a permission is missing; 6 if the server did not answer in time.

Examples:
  leader history reports --dev
  leader history reports --at 14:03:07
  leader history reports --at 2026-11-20T14:03:07+01:00
  leader history reports --since 24h -o json`
}

// Validate checks what the parser cannot.
func (c HistoryShowCommand) Validate() error {
	errs := []error{c.Target.Validate(), app.ValidGroup(c.Group)}
	for _, flag := range [][2]string{{"--at", c.At}, {"--since", c.Since}} {
		if _, err := parseTime(flag[1], time.Now()); flag[1] != "" && err != nil {
			errs = append(errs, fmt.Errorf("%s %w", flag[0], err))
		}
	}
	return errors.Join(errs...)
}

// A Past is what history prints, as JSON.
type Past struct {
	Bucket string `json:"bucket"`
	Group  string `json:"group"`
	Stream string `json:"stream"`
	// CompleteSince: nothing is known of the time before. Missing is how many
	// advisories are known to be lost.
	CompleteSince time.Time `json:"complete_since"`
	Missing       uint64    `json:"missing,omitempty"`
	Terms         []Term    `json:"terms"`
	// At is the time that was asked about, Led whether somebody is known to
	// have led then, AtTerm who.
	At     time.Time `json:"at,omitzero"`
	Led    bool      `json:"led,omitempty"`
	AtTerm *Term     `json:"at_term,omitempty"`
}

// A Term is who led when: see advisory.Term.
type Term struct {
	Leader      string        `json:"leader"`
	Term        uint64        `json:"term"`
	Began       time.Time     `json:"began,omitzero"`
	Ended       time.Time     `json:"ended,omitzero"`
	Reason      leader.Reason `json:"reason,omitempty"`
	By          string        `json:"by,omitempty"`
	Why         string        `json:"why,omitempty"`
	Correlation string        `json:"correlation,omitempty"`
}

func termOf(r advisory.Term) Term {
	return Term{r.Leader, r.Number, r.Began, r.Ended, r.Reason, r.By, r.Why, r.Correlation}
}

// Run shows the history. A missing stream is distinguished from a history
// without the group: an operator has to change the first, and the second is
// mostly a candidate that publishes nothing. Therefore they have different
// statuses.
func (c HistoryShowCommand) Run(ctx context.Context, std app.Streams) error {
	var h archive.History
	var terms []advisory.Term
	err := c.Streams(ctx, "history", func(ctx context.Context, s *app.Session, js jetstream.JetStream) (err error) {
		if h, err = archive.Read(ctx, js, c.Bucket, c.Group); err == nil {
			terms = h.Terms()
			c.bury(ctx, s, terms)
		}
		return err
	})
	switch {
	case errors.Is(err, archive.ErrNone):
		return fmt.Errorf("%w: %w; leader history enable makes one", store.ErrPermanent, err)
	case err != nil:
		return err
	case len(h.Advisories) == 0:
		return fmt.Errorf("%w: group %q: stream %s has nothing of it since %s; do its candidates publish advisories?",
			app.ErrNotFound, c.Group, h.Stream, h.Complete.Local().Format(time.DateTime))
	}
	past := c.past(h, terms, time.Now())
	past.warn(std.Err)
	if c.At != "" {
		return c.answer(std.Out, past, terms)
	}
	return c.Write(std.Out, past.table(time.Now()))
}

// bury ends the term that lasts as far as the history knows, where its leader's
// lease has run out: nobody may have been there to publish that. A user who may
// not read the record is shown the history's content.
func (c HistoryShowCommand) bury(ctx context.Context, s *app.Session, terms []advisory.Term) {
	if len(terms) == 0 || !terms[len(terms)-1].Ended.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	st, err := s.Store()
	if err != nil {
		return
	}
	infos, err := leader.SnapshotWithStore(ctx, st, c.Group)
	if err != nil {
		return
	}
	last := &terms[len(terms)-1]
	for _, now := range s.Standings(ctx, infos) {
		if now.Last == last.Leader && now.Term == last.Number {
			last.Ended, last.Reason = now.Ended, now.Reason
		}
	}
}

// past is what is printed of a history. A term that ended after --since is
// shown as a whole, since its leader led then.
func (c HistoryShowCommand) past(h archive.History, terms []advisory.Term, now time.Time) Past {
	p := Past{
		Bucket: c.Bucket, Group: c.Group, Stream: h.Stream, CompleteSince: h.Complete.UTC(), Missing: h.Missing(), Terms: []Term{},
	}
	since := time.Time{}
	if c.Since != "" {
		since, _ = parseTime(c.Since, now) // Validate has seen it
	}
	for _, r := range terms {
		if r.Ended.IsZero() || !r.Ended.Before(since) {
			p.Terms = append(p.Terms, termOf(r))
		}
	}
	if c.At != "" {
		p.At, _ = parseTime(c.At, now)
	}
	return p
}

// warn reports gaps. It writes to standard error, which does not disturb a
// program that reads the terms: the program has the fields.
func (p Past) warn(w io.Writer) {
	if p.Missing > 0 {
		fmt.Fprintf(w, "leader: %d advisories are missing in stream %s: lost on their way, or dropped by a candidate that was cut off\n", p.Missing, p.Stream)
	}
	if len(p.Terms) > 0 && p.Terms[0].Began.IsZero() {
		fmt.Fprintf(w, "leader: the history begins at %s, within a term\n", p.CompleteSince.Local().Format(time.DateTime))
	}
}

// table is the terms as they are printed.
func (p Past) table(now time.Time) output.Result {
	r := output.Result{
		Value: p,
		Head:  []string{"LEADER", "TERM", "BEGAN", "ENDED", "LASTED", "REASON", "BY", "WHY", "CORRELATION"},
		Wide:  8,
		Minor: []string{"CORRELATION", "TERM", "ENDED", "BY"},
	}
	for _, x := range p.Terms {
		r.Names = append(r.Names, x.Leader)
		r.Rows = append(r.Rows, []string{
			x.Leader, number(x.Term), stamp(x.Began), stamp(x.Ended), x.lasted(now), string(x.Reason), x.By, x.Why, x.Correlation,
		})
	}
	return r
}

// stamp shows a time to the millisecond, which is what separates two terms.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05.000")
}

// lasted is how long the term lasted, as far as its beginning is known.
func (r Term) lasted(now time.Time) string {
	switch {
	case r.Began.IsZero():
		return ""
	case r.Ended.IsZero():
		return length(now.Sub(r.Began)) + " so far"
	default:
		return length(r.Ended.Sub(r.Began))
	}
}

// answer prints who led at a time. It looks at all terms, since --since limits
// what is shown. By the candidates' clocks two terms may overlap: the later
// term counts, to which the other had to give way. A program gets its object
// also if nobody led, with the status.
func (c HistoryShowCommand) answer(w io.Writer, p Past, terms []advisory.Term) error {
	for _, r := range terms {
		if r.Covers(p.At) {
			found := termOf(r)
			p.Led, p.AtTerm = true, &found
		}
	}
	// A program gets its object in any case, together with the status.
	if p.Led || c.Output == "json" || c.Output == "yaml" {
		if err := c.printAt(w, p); err != nil || p.Led {
			return err
		}
	}
	return fmt.Errorf("%w: %s", app.ErrNotFound, p.nobody(terms))
}

// printAt prints the answer, which is known to be somebody but for programs.
func (c HistoryShowCommand) printAt(w io.Writer, p Past) error {
	switch c.Output {
	case "json", "yaml":
		return c.Write(w, output.Result{Value: p})
	case "name":
		_, err := fmt.Fprintln(w, output.Printable(p.AtTerm.Leader))
		return err
	}
	r := p.AtTerm
	until := "and leads as far as the history knows"
	if !r.Ended.IsZero() {
		until = "until " + stamp(r.Ended)
		if r.Reason != "" {
			until += " (" + string(r.Reason) + ")"
		}
	}
	_, err := fmt.Fprintln(w, output.Printable(fmt.Sprintf("%s led %s at %s, in term %d, since %s %s",
		r.Leader, p.Group, p.At.Local().Format(time.RFC3339), r.Term, stamp(r.Began), until)))
	return err
}

// nobody describes what is known of a time at which nobody is known to have
// led, by all terms. Before the history starts nothing is known, which is not
// the same as nobody.
func (p Past) nobody(terms []advisory.Term) string {
	at := p.At.Local().Format(time.RFC3339)
	// First: the terms of that time may lack what was lost.
	if p.At.Before(p.CompleteSince) {
		return fmt.Sprintf("who led %s at %s is not known: the history begins at %s", p.Group, at, stamp(p.CompleteSince))
	}
	s := fmt.Sprintf("nobody is known to have led %s at %s", p.Group, at)
	for _, r := range terms {
		switch {
		case !r.Ended.IsZero() && !p.At.Before(r.Ended):
			s = fmt.Sprintf("nobody is known to have led %s at %s: term %d of %s had ended %s before", p.Group, at, r.Number, r.Leader, length(p.At.Sub(r.Ended)))
			if r.Reason != "" {
				s += " (" + string(r.Reason) + ")"
			}
		case r.Began.After(p.At):
			return s + fmt.Sprintf(", and %s began to lead %s later", r.Leader, length(r.Began.Sub(p.At)))
		}
	}
	return s
}

// HistoryEnableCommand makes the stream.
type HistoryEnableCommand struct {
	app.Target

	MaxAge   time.Duration `default:"720h" placeholder:"TIME" help:"How long advisories are kept."`
	MaxBytes int64         `default:"268435456" placeholder:"BYTES" help:"How much is kept; the oldest goes first."`
}

// Help describes the command.
func (HistoryEnableCommand) Help() string {
	return `Makes a stream, LEADER_HISTORY_<bucket>, of all advisories of a bucket: on file, with as many replicas as the bucket, 30 days and 256 MiB
of them at the most unless flags set another limit. If a stream keeps them already, nothing is changed.

Candidates publish advisories if they are made to: --advisories of this command's, the hooks of package advisory in a program.

Exit status: 0; 5 if the bucket, a permission or the room is missing; 6 if the server did not answer in time.

Examples:
  leader history enable
  leader history enable --bucket leaders --max-age 168h
  leader history enable --dev`
}

// Validate checks what the parser cannot.
func (c HistoryEnableCommand) Validate() error {
	errs := []error{c.Target.Validate()}
	if c.MaxAge < time.Second {
		errs = append(errs, fmt.Errorf("--max-age %v: must be at least 1s", c.MaxAge))
	}
	if c.MaxBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("--max-bytes %d: must be at least 1048576", c.MaxBytes))
	}
	return errors.Join(errs...)
}

// Run makes the stream. If the stream exists already, Run succeeds, so that
// scripts can be rerun. Its name is all of the standard output.
func (c HistoryEnableCommand) Run(ctx context.Context, std app.Streams) error {
	var name string
	var made bool
	err := c.Streams(ctx, "history enable", func(ctx context.Context, _ *app.Session, js jetstream.JetStream) (err error) {
		name, made, err = archive.Enable(ctx, js, c.Bucket, archive.Limits{Age: c.MaxAge, Bytes: c.MaxBytes})
		return err
	})
	if errors.Is(err, archive.ErrNoRoom) {
		return fmt.Errorf("%w; --max-bytes %d asks for more than there is", err, c.MaxBytes)
	}
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(std.Err, "leader: made stream %s, which keeps %s for %v\n", name, advisory.Subject(c.Bucket, "*", ">"), c.MaxAge)
	} else {
		fmt.Fprintf(std.Err, "leader: stream %s keeps %s already\n", name, advisory.Subject(c.Bucket, "*", ">"))
	}
	_, err = fmt.Fprintln(std.Out, name)
	return err
}

// HistoryDisableCommand deletes the stream.
type HistoryDisableCommand struct {
	app.Target

	Yes bool `help:"Delete the history. Without it the command prints what it would do."`
}

// Help describes the command.
func (HistoryDisableCommand) Help() string {
	return `Deletes the stream that leader history enable made, and the history with it. Elections go on as they are.

Exit status: 0; 2 without --yes; 4 if there is no such stream; 5 if the permission is missing; 6 if the server did not answer in time.

Examples:
  leader history disable --yes
  leader history disable --yes --dev`
}

// Validate checks what the parser cannot.
func (c HistoryDisableCommand) Validate() error { return c.Target.Validate() }

// Run deletes the stream. It asks nobody back, and means the same with a
// terminal and without one.
func (c HistoryDisableCommand) Run(ctx context.Context, std app.Streams) error {
	name := archive.Name(c.Bucket)
	if !c.Yes {
		return fmt.Errorf("%w: this deletes stream %s with all that it keeps; confirm with --yes", app.ErrUsage, name)
	}
	err := c.Streams(ctx, "history disable", func(ctx context.Context, _ *app.Session, js jetstream.JetStream) error {
		return archive.Disable(ctx, js, c.Bucket)
	})
	if errors.Is(err, archive.ErrNone) {
		return fmt.Errorf("%w: %w", app.ErrNotFound, err)
	}
	if err == nil {
		fmt.Fprintf(std.Err, "leader: deleted stream %s\n", name)
	}
	return err
}
