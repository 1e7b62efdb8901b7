package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/guard"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/candidate"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

// The exit statuses of leader run itself; all others are the program's.
const (
	exitTaken    = 75  // another leads, or this host may not: EX_TEMPFAIL of sysexits.h
	exitNotFound = 127 // the program was not found
)

// The actions after the program's own end.
const (
	onExitRelease  = "release"
	onExitCampaign = "campaign"
	onExitRestart  = "restart"
	onExitStay     = "stay"
)

// killMixed is the --kill-mode in which the program's first process passes
// signals on.
const killMixed = "mixed"

// A Command is the command line of leader run.
type Command struct {
	candidate.Flags `set:"profile=stable"`
	web.Hosts

	StopTimeout time.Duration  `placeholder:"TIME" help:"From SIGTERM to SIGKILL at the end of a term (default: 5s, or half of what the lease has room for). If it is given, it also bounds the program's end after INT, QUIT or TERM to leader run."`
	StopSignal  string         `enum:"TERM,INT,QUIT,HUP,USR1,USR2" default:"TERM" placeholder:"TERM" help:"What the program gets in place of SIGTERM: TERM, INT (PostgreSQL's fast shutdown), QUIT, HUP, USR1, USR2."`
	KillMode    string         `enum:"group,mixed" default:"group" placeholder:"group" help:"Who gets signals other than SIGKILL: all that the program has started (group), or its first process alone (mixed), for a program that passes them on to its workers; the processes that it leaves when it ends get SIGKILL at once."`
	OnExit      string         `placeholder:"release" enum:"release,campaign,restart,stay" default:"release" help:"When the program ends by itself: release and exit with its status; release and campaign again (campaign); start it again (restart); keep leading without it (stay)."`
	OnPromote   string         `placeholder:"CMD" help:"A shell command before the program starts in a new term."`
	OnDemote    string         `placeholder:"CMD" help:"A shell command after it ended and before the lease is released."`
	Label       string         `placeholder:"CMD" help:"A shell command at the start, at promotion and at demotion, with LEADER_ROLE=leader or follower."`
	Cgroup      string         `name:"cgroup" default:"auto" placeholder:"auto" help:"Run the program in a separate cgroup and kill that, which reaches processes of other users, too (Linux): auto (where one can be had), off, require, or the path of the cgroup to make it in."`
	AllowSetuid bool           `help:"Run a program that becomes another user (sudo, setuid) although it cannot be ended then."`
	Slots       int            `short:"n" default:"1" placeholder:"N" help:"Let N hosts run the program at the same time: each leads one of the groups GROUP.1 to GROUP.N."`
	Try         bool           `help:"End with status 75 at once if another leads, and with 6 if the server is away: for cron, and whatever else starts it again."`
	Once        bool           `help:"Let one host of all start the program once in --every: for cron, with the same line on each host."`
	Every       *time.Duration `placeholder:"1m" help:"The period of --once: at most the time between two runs."`
	At          string         `placeholder:"HH:MM" help:"In place of --every: the period of --once is a day, which begins at this time of the clock."`
	Zone        string         `placeholder:"ZONE" help:"The zone of that clock, such as Europe/Berlin (default: this host's)."`
	ProofKey    string         `placeholder:"FILE" type:"existingfile" help:"Sign proofs that this host leads, by the group's key in FILE (leader token keygen), into the file $LEADER_PROOF_FILE for the program."`
	ProofFor    string         `placeholder:"NAME" help:"The audience of these proofs. Without, they are for everyone."`
	HTTP        string         `name:"http" placeholder:"ADDRESS" help:"Serve /livez, /readyz, /leader and /metrics, on :8080 for example."`

	Group   string   `arg:"" help:"The group: at most one of its members runs the program."`
	Program []string `arg:"" help:"The program and its arguments, after --."`
}

// Help is shown below the flags.
func (Command) Help() string { //nolint:funlen // it is one text
	return `Runs a program while this host leads the group, and ends it before another host may start its own.

A service stays: leader run GROUP -- PROGRAM on each host. A job ends by itself, and each host would run it in turn as soon as the one
before has ended: leader run --once GROUP -- PROGRAM in each host's crontab has one of them run it.

The program gets SIGTERM, together with all that it has started, as soon as the term ends, or when no renewal was
acknowledged for so long that only --stop-timeout is left; what lives after that gets SIGKILL before the trust window
closes. A guard process does this also while leader run itself is stopped, killed or cut off. Nothing is released before all is gone.

Environment of the program: LEADER_GROUP, LEADER_TERM (a number that only grows: give it to what must refuse a stale
leader), LEADER_TOKEN, LEADER_ID, LEADER_BUCKET; with --slots also LEADER_SLOT, 1 to N, and LEADER_SLOTS, N. The program, the hooks
and --check do not inherit the credentials of leader run: NATS_CONTEXT, NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS, NATS_NKEY,
NATS_CERT, NATS_KEY, LEADER_STORE, LEADER_ANNOUNCE_TO, LEADER_DASH_TOKEN, and NATS_URL where it has a user or a token in it. A program
that uses them, such as another leader command, needs --pass-credentials. All other variables stay (AWS_…, PGPASSWORD).

` + aboutHooks + aboutProofs + `Signals HUP, INT, QUIT, TERM, USR1, USR2 and WINCH are passed on to the program's process group. After INT, QUIT or TERM
leader run exits when the program has; the lease is kept for as long as it takes, or for --stop-timeout if that is given. Without
a program that runs, INT, QUIT and TERM end leader run, and the others do nothing. HUP and INT have no effect where they were ignored
when leader run was started (nohup, or & in a script), nor have they on the program. As process 1 of a container it collects orphans.

With --slots N as many hosts run the program at the same time. The slots are groups of their own, GROUP.1 to GROUP.N, for all
commands: leader ls 'GROUP.*' shows them, leader step-down GROUP.2 empties one. A host campaigns in all and runs the program in one at
the most; LEADER_GROUP is that slot's group, and LEADER_TERM grows in each slot by itself. Give all hosts the same N: the records state it (slots in META), and hosts warn
of each other if theirs differ, also by GROUP.N+1 where the user may read that. A process whose
host runs the program already, under the same --id, ends with status 1. With --http, /leader?group=GROUP.1 asks for a slot.

With --try it ends with status 75 as soon as it knows that another host leads: the server has stored that host's latest renewal within
the lease, or the host renews. If the leader has just died, it waits for the end of the lease, since otherwise every host would give up,
and nobody would run the program. It also ends with 75 if the group is paused, or if this host is drained or unhealthy, and
with 6 if the server is not reached within --timeout. With --slots it does when all slots are taken.

With --once one host of all starts the program once in a period, and the others end with status 0 as soon as it has started, whatever
its outcome. Periods have the length --every and are counted from 1970 (UTC) by the clock of the host that starts leader run, as cron
counts: clocks may be apart by less than --every. So a period of 24h begins at midnight UTC all year, and a crontab's line whose hour is
before midnight UTC in summer and after it in winter, as 01:30 in Berlin, finds one period with two of its runs when summer time begins: the
second is left out. --at 01:30 --zone Europe/Berlin counts days as a crontab does: each begins when that clock shows 01:30, for the
first time on a day that has it twice, and later by as much as the clock skips on a day that does not have it. A run is noted in the store before the program starts, and never started twice.
It is not started again if the host dies, either: the next run is the run of the next period. A host that does not get to lead in the
period ends with status 75; nobody waits for a run that takes longer than the period. A host ends with status 1 if its clock is so far
ahead that its period begins more than a period after the server's current time: its note would keep the others away. A note that
is so far ahead of when the server stored it does not count, if the server reports when it stored it (NATS does). The user
needs the rights of a scheduler (leader doctor --role scheduler), which writes the keys _ctl._ran.GROUP and _ctl.GROUP. The second is
for hosts of earlier versions, which know no other; the next version does without it.

With --try and --once the candidate's name is the host's and the process's (host-1.4711) if --id is not given, since two of a host may
overlap.

Exit status: the status of the program; 75 if another leads (--try), or if this host did not get to lead (--once); 128 + n if signal n ended it, or ended leader run while it did not lead; 126 if the
program cannot be run, 127 if it does not exist; 2 wrong usage, 5 refused by the server, 6 if --try does not reach it, 1 other failures.

Limits. Not even SIGKILL ends a process that hangs in the kernel. When a whole host or container is frozen, so is the
guard: the program may run for some milliseconds after the thaw, which only LEADER_TERM, checked by what it writes to,
makes harmless. If leader run and its guard are both killed by SIGKILL, the system kills the program, but not what it has
started in turn. On Linux every descendant is found otherwise; on macOS and other Unix systems only the process group, and a
program whose guard is killed while leader run is stopped lives on. Processes that the program has others start (systemd-run, at,
docker run) are not descendants, and are not found.

Daemons. A program must stay in the foreground. A program that forks and exits has ended, and leader run ends what it left on Linux; on other
systems a process that has left the process group, as daemons do, lives on beside the next host's program. A process that forks itself
again and again, and exits each time, may escape SIGKILL even on Linux for as long as it goes on: leader run releases nothing
meanwhile, but where the lease runs out another host begins. In a cgroup (--cgroup require) it is killed at once.

Other users. Only root (CAP_KILL) may signal the processes of other users. Where leader run may not, it refuses a program that is
sudo, su, doas, pkexec or setuid, names what has become another user's within a second or a minute of it, and, when such a process
lives on after SIGKILL, reports that, keeps renewing the lease as long as the server lets it, releases nothing and does not campaign
again before all has ended. If the host is cut off meanwhile, the lease runs out all the same. Ways out:

  # The program is root's; --preserve-env=NATS_URL,… for what sudo drops.
  sudo leader run g -- ./x
  # The program is app's, and leader run may still end it.
  sudo leader run g -- setpriv --reuid=app --regid=app --init-groups ./x
  # Nothing below becomes another user: sudo and setuid have no effect.
  leader run g -- setpriv --no-new-privs ./x
  # SIGKILL by the cgroup reaches root's processes; SIGTERM does not.
  # sudo drops LEADER_TERM: --preserve-env=LEADER_TERM
  leader run g --cgroup require -- sudo ./x

A cgroup is available on Linux 5.14 and later where leader run may write to its own: a systemd unit with Delegate=yes, a user's
systemd-run --user --scope, or root.

Windows: leader run refuses there. It has no SIGTERM that a program could end by in peace, and no subreapers, on which the
promise rests that nothing is left of a program before another host begins. Use the library, or run it where WSL 2
or a container gives you Linux. All other commands work.

` + examples
}

const aboutHooks = `The commands of --on-promote, --on-demote and --label have LEADER_ROLE (leader or follower), LEADER_GROUP and LEADER_ID; --on-promote
has LEADER_TERM, too, --on-demote the number of the term that has ended, and --label the number of the term while this host leads. A command
that fails, or takes longer than --timeout, is reported and changes nothing: the program starts although --on-promote failed.

`

const aboutProofs = `With --proof-key also LEADER_PROOF_FILE: a file that holds a proof that this host leads, for what cannot ask the store. It is written
before the program starts, replaced as a whole by a new one each time that a third of its time has passed, and removed after the program's
end. A proof lasts for 10s at most, and never longer than the trust window. Read the file for each use; it is readable by the user of
leader run. See leader token verify --offline. With --slots the key is for all slots, and each slot's proof names the slot's group.

`

const examples = `Examples:

  # On each of three machines: one runs it.
  leader run backup -- ./backup.sh --all
  # Another host is ready 3.3 s after a crash.
  leader run web --ttl 3s --heartbeat 500ms -- ./server
  # Restarted in place; probes and metrics on port 8080.
  leader run feed --on-exit restart --http :8080 -- ./feed
  # On three of however many machines, each with its LEADER_SLOT.
  leader run workers -n 3 -- ./worker
  # Another service verifies who leads, without a connection to the store.
  leader run feed --proof-key feed.pem -- ./feed
  # In the crontab of each: who leads goes on, the others end.
  */5 * * * * root /usr/local/bin/leader run --try job -- /opt/job.sh
  # One of them, each night.
  0 2 * * * root /usr/local/bin/leader run --once --at 02:00 db -- /opt/db.sh
  leader run --dev try -- sh -c 'echo term $LEADER_TERM; sleep 5'`

// Validate checks what the parser cannot.
func (c Command) Validate() error {
	errs := []error{c.Flags.Validate(), c.CheckHosts(), app.ValidGroup(c.Group)}
	if len(c.Program) == 0 {
		errs = append(errs, errors.New("<program>: is required"))
	}
	if c.StopTimeout < 0 {
		errs = append(errs, fmt.Errorf("--stop-timeout %v: must not be negative", c.StopTimeout))
	}
	if m := c.Cgroup; m != process.CgroupAuto && m != process.CgroupOff && m != process.CgroupRequire && !filepath.IsAbs(m) {
		errs = append(errs, fmt.Errorf("--cgroup %q: must be auto, off, require or an absolute path", m))
	}
	if c.Slots < 1 || c.Slots > maxSlots {
		errs = append(errs, fmt.Errorf("--slots %d: must be 1 to %d", c.Slots, maxSlots))
	}
	errs = append(errs, c.checkOnce())
	if c.ProofFor != "" && c.ProofKey == "" {
		errs = append(errs, errors.New("--proof-for: needs --proof-key"))
	}
	if c.HTTP != "" {
		errs = append(errs, web.CheckAddress("--http", c.HTTP))
	}
	return errors.Join(errs...)
}

// Run runs the program whenever this host leads.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	// Before anything is connected: that the program is missing would otherwise
	// show only when this host leads, perhaps weeks later. The statuses are the
	// shells' statuses for such mistakes.
	path, err := exec.LookPath(c.Program[0])
	if err != nil {
		fmt.Fprintln(std.Err, "leader:", err)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			return &app.ExitError{Code: exitNotFound}
		}
		return &app.ExitError{Code: guard.ExitCannotRun}
	}
	// Cron starts the next process while the one before may still lead, and the
	// candidates of a group must have names unlike each other's.
	if c.ID == "" && (c.Try || c.Once) {
		if c.ID, err = processName(); err != nil {
			return err
		}
	}
	// The journal has the time of each line.
	if c.Env.Get("JOURNAL_STREAM") == "" {
		std.Err = output.Stamped{W: std.Err}
	}
	return c.run(ctx, path, std)
}

// untilDead is how long the release waits for the program's end: for ever. A
// live program that cannot be ended must not lose its lease by our action.
const untilDead = 100 * 365 * 24 * time.Hour

// config returns the candidate's configuration and the limits that its lease
// sets.
//
// The name that it is validated with is the longest of all groups: what is too
// long for one slot is refused before any election begins.
func (c Command) config(shell candidate.Shell, std app.Streams) (leader.ElectionConfig, guard.Limits, error) {
	groups := c.groups()
	cfg, err := c.Config(groups[len(groups)-1], leader.ProfileStable, shell, std.Err)
	if err != nil {
		return cfg, guard.Limits{}, err
	}
	lim, err := guard.LimitsOf(cfg, c.StopTimeout)
	if err != nil {
		return cfg, lim, fmt.Errorf("%w: %w", app.ErrUsage, err)
	}
	cfg.DemoteTimeout = untilDead
	cfg.Meta = withSlots(cfg.Meta, c.Slots)
	return cfg, lim, nil
}

// groups returns the names of the groups in which it campaigns, in the order of
// the slots.
func (c Command) groups() []string {
	if c.Slots <= 1 {
		return []string{c.Group}
	}
	var all []string
	for slot := range c.Slots {
		all = append(all, fmt.Sprintf("%s.%d", c.Group, slot+1))
	}
	return all
}

// stand takes the candidacies, without starting an election. With several candidacies, a
// RoleManager ensures that at most one leads.
func (c Command) stand(s *app.Session, cfg leader.ElectionConfig) (contest, []*candidacy, error) {
	if c.Slots <= 1 {
		e, err := c.Election(s, cfg)
		return e, []*candidacy{{e: e, group: c.Group}}, err
	}
	groups := c.groups()
	m, err := c.RoleManager(s, cfg, groups)
	if err != nil {
		return nil, nil, err
	}
	var candidacies []*candidacy
	for i, group := range groups {
		candidacies = append(candidacies, &candidacy{e: m.Election(group), group: group, slot: i + 1})
	}
	return m, candidacies, nil
}
