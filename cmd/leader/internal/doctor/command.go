package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store"
)

// Command examines whatever elections depend on.
//
// The TTL and the heartbeat are those that the user means to set: no candidate
// is asked, and there need not be one.
type Command struct {
	app.Target
	output.Format

	// Forms shows the URLs of stores, for the help.
	Forms string `kong:"-"`

	TTL       time.Duration `name:"ttl" default:"3s" help:"The length of the leases."`
	Heartbeat time.Duration `placeholder:"TTL/3" help:"The time from one renewal to the next."`
	Group     string        `placeholder:"GROUP" help:"The group to look at, and whose rights are tried (default: those of the first of the bucket, or of a made-up one)."`
	Instance  string        `placeholder:"ID" help:"The InstanceID under which the rights to drains are tried (default: a made-up one, for users with rights to all instances)."`
	Role      []string      `enum:"candidate,scheduler,observer,viewer,operator,caretaker,admin" placeholder:"ROLE" help:"What the user is to be able to do: candidate, scheduler (leader run --once), observer (get, ls and watch of that group), viewer (those of every group), operator, caretaker (leader vacate and forget), admin. Missing rights fail then."`
	Rounds    int           `default:"20" placeholder:"N" help:"How many round trips to measure."`
	Monitor   string        `placeholder:"URL" help:"The monitoring port of a server, such as http://localhost:8222, which reports how often it syncs."`
	Strict    bool          `help:"Exit with 1 also if there are warnings."`
}

// Help describes the command.
func (c Command) Help() string {
	return `Examines the server (version, known faults, JetStream), the bucket (as leader bucket check), how often the
server syncs, the clocks, the round trip against the TTL, what the user may do in each role, and which groups are paused; with --group also whether that one is led, and who could lead it.
Each finding is one line: ok, info (not to be judged), warn, fail, with what to change below.

It is harmless: no record is touched. A right to write is tried with a write on condition of a revision that no key ever has, as
candidates do at their start; a right to ask JetStream with a request whose body is no JSON. The server refuses both, and logs a
denial for each right that is missing. The round trips are such refused writes, one after the other.

Fields of -o json: server, bucket, group, healthy (nothing is fail), findings (check, status, text, fix). The checks are
connection, version, jetstream, bucket, expiry, replicas, mirror, sync, clock, round-trip, candidate, scheduler, observer,
viewer, operator, caretaker, admin, paused, group; elsewhere than on NATS store, round-trip, paused and group. A quorum also has members.

Of a store elsewhere than on NATS (--store) it prints what the store reports of itself, the round trip, which groups are
paused, and with --group who leads it. Of a quorum it prints whether each member answers, remembers the group and is up to
date; its round trips raise the ballots of the group, which costs a leader's next renewal a second round trip. The forms
of the URL:

` + c.Forms + `
domain and creds of a bucket of NATS are --js-domain and --creds. They replace the environment's values, and a flag
with another value is an error. Any other parameter is refused there.

--timeout bounds each of the checks, so that a server which does not answer leaves a whole report.

Exit status: 0; 1 if a finding is fail, with --strict also warn, or if no server is there; 2 wrong usage; 6 if no server
answered in time.

Examples:
  leader doctor --dev
  leader doctor --ttl 15s --heartbeat 5s --group reports --role candidate
  leader doctor --monitor http://localhost:8222
  leader doctor -o json | jq '.findings[] | select(.status == "fail") | .text'`
}

// Validate checks what the parser cannot.
func (c Command) Validate() error {
	errs := []error{c.Target.Validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.TTL >= leader.MinTTL && c.TTL <= leader.MaxTTL, "--ttl %v: must be from %v to %v", c.TTL, leader.MinTTL, leader.MaxTTL)
	check(c.Heartbeat >= 0 && c.Heartbeat < c.TTL, "--heartbeat %v: must be positive and less than --ttl %v", c.Heartbeat, c.TTL)
	check(c.Group == "" || store.ValidKey(c.Group), "--group %q: must be letters, digits and -_=/. with no dot at an end and no two in a row", c.Group)
	check(c.Rounds > 0 && c.Rounds <= 10_000, "--rounds %d: must be from 1 to 10000", c.Rounds)
	if c.Monitor != "" {
		u, err := url.Parse(c.Monitor)
		check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "--monitor %q: must be a URL such as http://localhost:8222", c.Monitor)
	}
	return errors.Join(errs...)
}

// A Report is what the command prints. The help documents it.
type Report struct {
	Server   string       `json:"server"`
	Bucket   string       `json:"bucket"`
	Group    string       `json:"group"`
	Healthy  bool         `json:"healthy"`
	Findings finding.List `json:"findings"`
}

// Run examines. It prints the findings before they decide the exit status. The
// status is 1 as for any failure: 5 and 6 mean that nothing was examined.
// Warnings count only on request, since otherwise a working cluster would fail
// in every script.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	s, err := c.Open("doctor")
	if err != nil {
		return err
	}
	defer s.Close()
	e := newExamination(c, s)
	if err := e.run(ctx); err != nil {
		return err
	}
	fails, warns := e.findings.Count(finding.Fail), e.findings.Count(finding.Warn)
	err = e.findings.Write(std.Out, c.Format, Report{s.URL, s.Bucket, e.scope.Group, fails == 0, e.findings})
	if err != nil {
		return err
	}
	if fails > 0 || c.Strict && warns > 0 {
		return &app.ExitError{Code: app.ExitFailure}
	}
	return nil
}
