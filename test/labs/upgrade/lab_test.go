//go:build unix

package upgrade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const (
	bucket = "leaders"
	group  = "service" // whose programs run until they are ended
	job    = "job"     // whose programs end by themselves (--once)
	// enough is how many signs of life a program must have given before it
	// counts as one that ran.
	enough = 20
)

// A lab is a group of three hosts on a server of their own.
type lab struct {
	*testing.T
	old, new version
	server   *natslab.Processes
	nc       *nats.Conn
	dir      string // of the programs' files
	home     string // of the commands
	hosts    []*host

	pauses   []overlap.Span
	begins   time.Time // of the latest period of --once
	acts     []act
	turns    int
	repeated []string // requests that had no effect since the term was over
	row      int      // how many of these were in a row
}

// An act is something that ended a term.
type act struct {
	what   string
	before stint
}

// newLab starts a server, makes the bucket by the command of the first version,
// and starts three hosts with it.
func newLab(t *testing.T, older, newer, first version) *lab {
	t.Helper()
	l := &lab{
		T: t, old: older, new: newer, server: natslab.StartProcesses(t, 1, ""), dir: t.TempDir(), home: t.TempDir(),
		begins: time.Now().Add(-time.Hour).Truncate(time.Second),
	}
	l.nc = l.server.Connect(t)
	l.must(first, "bucket", "create", bucket)
	l.must(first, "history", "enable")
	for _, id := range []string{"a", "b", "c"} {
		l.hosts = append(l.hosts, l.newHost(group, id, first, "--ttl", "1s"))
	}
	l.Cleanup(func() {
		for _, h := range l.hosts {
			if l.Failed() {
				l.Logf("--- %s (%s)\n%s", h.id, h.version.name, h.said.String())
			}
		}
	})
	l.led(0)
	l.stand()
	l.agree()
	return l
}

// env returns the environment of the commands, without the machine's own
// settings for NATS.
func (l *lab) env(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + l.home, "XDG_CONFIG_HOME=" + l.home, "TMPDIR=" + l.home,
		"NATS_URL=" + l.server.URL(), "LEADER_BUCKET=" + bucket,
	}, more...)
}

// command runs a command of a version to its end. Its exit status is -1 if ctx
// ended before.
func (l *lab) command(ctx context.Context, v version, args ...string) (code int, stdout []byte, stderr string) {
	l.Helper()
	cmd := exec.CommandContext(ctx, v.program, args...)
	cmd.Env = l.env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(&errs, err)
	}
	return cmd.ProcessState.ExitCode(), out.Bytes(), errs.String()
}

// must runs a command that has to succeed.
func (l *lab) must(v version, args ...string) {
	l.Helper()
	if code, out, errs := l.command(natslab.Within(l), v, args...); code != 0 {
		l.Fatalf("leader %v (%s): exit status %d\n%s%s", args, v.name, code, out, errs)
	}
}

// read runs a command that prints JSON, and decodes it.
func (l *lab) read(ctx context.Context, into any, v version, args ...string) error {
	l.Helper()
	code, out, errs := l.command(ctx, v, append(args, "-o", "json")...)
	if code != 0 {
		return fmt.Errorf("leader %v (%s): exit status %d: %s", args, v.name, code, errs)
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("leader %v (%s): %w: %s", args, v.name, err, out)
	}
	return nil
}

// A host is one leader run, of one version after the other.
type host struct {
	l       *lab
	group   string
	id      string
	version version
	env     []string // more of the environment
	flags   []string // more flags

	cmd   *exec.Cmd
	ended chan struct{}
	said  tail
}

// newHost starts a host. It is killed when the test ends.
func (l *lab) newHost(group, id string, v version, flags ...string) *host {
	l.Helper()
	h := &host{l: l, group: group, id: id, version: v, flags: flags}
	h.start()
	l.Cleanup(h.kill)
	return h
}

// start starts leader run, whose program is this test's executable.
func (h *host) start() {
	h.l.Helper()
	self, err := os.Executable()
	if err != nil {
		h.l.Fatal(err)
	}
	args := append([]string{"run", h.group, "--id", h.id, "--advisories", "--verbose"}, h.flags...)
	cmd := exec.Command(h.version.program, append(args, "--", self)...)
	cmd.Env = h.l.env(append([]string{signsVariable + "=" + h.l.dir, versionVariable + "=" + h.version.name}, h.env...)...)
	cmd.Stdout, cmd.Stderr = &h.said, &h.said
	// A process in the test's own group would get the signals of a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A program that outlives leader run would hold the pipe open. The judge finds
	// such a program.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		h.l.Fatal(err)
	}
	h.cmd, h.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // the acts decide how it ends
	}(h.ended)
}

// kill ends leader run without a warning. Its guard ends the program.
func (h *host) kill() {
	_ = h.cmd.Process.Kill() // it may have ended by itself
	<-h.ended
}

// end waits until leader run has exited, and returns its exit status.
func (h *host) end() int {
	h.l.Helper()
	select {
	case <-h.ended:
	case <-time.After(natslab.Patience):
		h.l.Fatalf("%s does not end", h.id)
	}
	return h.cmd.ProcessState.ExitCode()
}

// stop shuts leader run down as a deployment does.
func (h *host) stop() {
	h.l.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.l.Fatal(err)
	}
	// The status is the program's, which gets SIGKILL if the lease runs out, or
	// the signal's if none ran.
	allowed := []int{0, 128 + int(syscall.SIGTERM), 128 + int(syscall.SIGKILL)}
	if code := h.end(); !slices.Contains(allowed, code) {
		h.l.Errorf("%s (%s): exit status %d after SIGTERM", h.id, h.version.name, code)
	}
}

// A tail keeps the last of what was written, without the renewals.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !bytes.Contains(b, []byte("kind renew, outcome ok")) {
		w.b = append(w.b, b...)
	}
	w.b = w.b[max(0, len(w.b)-8000):]
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}

// latest returns the stint of the highest term until now.
func (l *lab) latest() (s stint) {
	l.Helper()
	if all := stintsIn(l, l.dir, group); len(all) > 0 {
		s = all[len(all)-1]
	}
	return s
}

// led waits until a program runs in a term from the given one on, and returns
// its stint.
func (l *lab) led(from uint64) (now stint) {
	l.Helper()
	before := l.latest()
	natslab.Await(natslab.Within(l), l, fmt.Sprintf("a program runs, in a term from %d on", from), nil, func() bool {
		now = l.latest()
		least := enough
		if now.Who == before.Who {
			least += before.signs
		}
		return now.term >= from && now.signs >= least
	}, func() string { return fmt.Sprintf("the latest: %s, with %d signs of life", now.Who, now.signs) })
	return now
}

// host returns the host of the id.
func (l *lab) host(id string) *host {
	return l.hosts[slices.IndexFunc(l.hosts, func(h *host) bool { return h.id == id })]
}

// stand waits until all hosts are candidates.
func (l *lab) stand() {
	l.Helper()
	standing := map[string]bool{}
	span := 25 * time.Millisecond // of a try, which a host that is still starting misses
	natslab.Await(natslab.Within(l), l, "all hosts are candidates", nil, func() bool {
		span *= 2
		ctx, cancel := context.WithTimeout(l.Context(), span)
		defer cancel()
		clear(standing)
		for c, err := range rollcall.Ask(ctx, l.nc, bucket, group) {
			if err != nil {
				return false
			}
			if standing[c.Instance] = true; len(standing) == len(l.hosts) {
				return true
			}
		}
		return false
	}, func() string { return fmt.Sprintf("the last candidates: %v", standing) })
}

// A place is a group as leader ls and leader get show it, and a term as leader
// history does.
type place struct {
	Group, Leader string
	Term          uint64
	Paused        bool
	Ended         time.Time
	Candidates    []struct {
		Instance, State, Leader string
		Term                    uint64
	}
}

// agree waits until the readers of both versions, and all candidates, name the
// leader whose program runs.
func (l *lab) agree() {
	l.Helper()
	natslab.Eventually(l, "readers of both versions name who leads", func(ctx context.Context) error {
		now := l.latest()
		return l.both(func(v version) error {
			var listed []place
			if err := l.read(ctx, &listed, v, "ls", group); err != nil {
				return err
			}
			if len(listed) != 1 || listed[0].Leader != now.id || listed[0].Term != now.term || listed[0].Paused {
				return fmt.Errorf("leader ls (%s): %+v, while %s runs", v.name, listed, now.Who)
			}
			var got place
			if err := l.read(ctx, &got, v, "get", group); err != nil {
				return err
			}
			leaders := 0
			for _, c := range got.Candidates {
				if c.State == "LEADER" {
					leaders++
				}
				if c.Leader != now.id || c.Term != now.term {
					return fmt.Errorf("leader get (%s): %+v, while %s runs", v.name, got, now.Who)
				}
			}
			if got.Leader != now.id || got.Term != now.term || leaders != 1 || len(got.Candidates) != len(l.hosts) {
				return fmt.Errorf("leader get (%s): %+v, while %s runs", v.name, got, now.Who)
			}
			terms, err := l.history(ctx, v)
			if err != nil {
				return err
			}
			if last := terms[len(terms)-1]; last.Leader != now.id || last.Term != now.term || !last.Ended.IsZero() {
				return fmt.Errorf("leader history (%s): ends with %+v, while %s runs", v.name, last, now.Who)
			}
			return nil
		})
	})
}

// both calls f for both versions, side by side.
func (l *lab) both(f func(version) error) error {
	errs := make([]error, 2)
	var all sync.WaitGroup
	for i, v := range []version{l.old, l.new} {
		all.Go(func() { errs[i] = f(v) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// history returns the terms that leader history shows, at least one.
func (l *lab) history(ctx context.Context, v version) ([]place, error) {
	l.Helper()
	var h struct{ Terms []place }
	err := l.read(ctx, &h, v, "history", "show", group)
	if err == nil && len(h.Terms) == 0 {
		err = fmt.Errorf("leader history (%s): no terms", v.name)
	}
	return h.Terms, err
}

// request runs a steering command of a version, and reports whether it took
// effect. It does not if the machine stalls for a lease and the term is over
// before the leader obeys.
func (l *lab) request(v version, args ...string) (done bool) {
	l.Helper()
	code, out, errs := l.command(natslab.Within(l), v, append(args, "--yes", "--timeout", "2m", "-o", "json")...)
	var result struct{ Outcome string }
	_ = json.Unmarshal(out, &result) // the outcome is empty then, too
	over := []string{"term-over", "no-leader", "other-successor"}
	switch {
	case code == 0 && result.Outcome == "done":
		l.row = 0
		return true
	case slices.Contains(over, result.Outcome) && l.row < 10:
		l.row++
		l.repeated = append(l.repeated, fmt.Sprintf("leader %v (%s): %s", args, v.name, result.Outcome))
		return false
	}
	l.Fatalf("leader %v (%s): exit status %d\n%s%s", args, v.name, code, out, errs)
	return false
}

// turn returns one version after the other.
func (l *lab) turn() version {
	l.turns++
	return []version{l.old, l.new}[l.turns%2]
}

// lead has a host of the version lead, and returns the stint of its program.
func (l *lab) lead(v version) stint {
	l.Helper()
	for {
		now := l.led(0)
		if l.host(now.id).version == v {
			return now
		}
		to := l.hosts[slices.IndexFunc(l.hosts, func(h *host) bool { return h.version == v })]
		if l.request(l.turn(), "transfer", group, "--to", to.id) {
			l.acts = append(l.acts, act{"transfer", now})
			l.over(now)
		}
	}
}

// over waits until the stint's successor leads, and judges.
func (l *lab) over(s stint) {
	l.Helper()
	l.led(s.term + 1)
	l.stand()
	l.agree()
	l.judge()
}

// judge fails the test if there was what must not be.
func (l *lab) judge() {
	l.Helper()
	if found, both := judge(stintsIn(l, l.dir, group), l.pauses); len(found) > 0 {
		l.Fatalf("two at one instant for %v: %q", both, found)
	}
}

// finish ends all hosts, and judges all that was seen.
func (l *lab) finish() {
	l.Helper()
	for _, h := range l.hosts {
		h.stop()
	}
	l.judge()
	l.sum()
}

// sum logs the acts, and the times without a program.
func (l *lab) sum() {
	l.Helper()
	stints := stintsIn(l, l.dir, group)
	signs := 0
	for _, s := range stints {
		signs += s.signs
	}
	_, both := judge(stints, l.pauses)
	jobs := map[string]int{}
	for _, s := range stintsIn(l, l.dir, job) {
		jobs[s.version]++
	}
	l.Logf("%d acts, %d pauses, %d terms, %d signs of life; two at one instant for %v; runs of --once: %v",
		len(l.acts), len(l.pauses), len(stints), signs, both, jobs)
	gaps := map[string][]time.Duration{}
	for _, a := range l.acts {
		i := slices.IndexFunc(stints, func(s stint) bool { return s.Who == a.before.Who })
		if i < 0 || i+1 == len(stints) || stints[i+1].signs == 0 {
			continue
		}
		next := stints[i+1]
		kind := fmt.Sprintf("%-10s %s → %s", a.what, a.before.version, next.version)
		gaps[kind] = append(gaps[kind], time.Duration(next.From-stints[i].To))
	}
	var kinds []string
	for kind := range gaps {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		g := gaps[kind]
		slices.Sort(g)
		l.Logf("%3d × %-24s without a program for %v to %v", len(g), kind, g[0].Round(time.Millisecond), g[len(g)-1].Round(time.Millisecond))
	}
	for _, r := range l.repeated {
		l.Logf("once more: %s", r)
	}
}
