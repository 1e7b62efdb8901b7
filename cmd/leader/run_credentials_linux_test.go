package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// nobody is a user without rights.
const nobody = 65534

const (
	// unending is the lease of a leader that is to keep it however busy the
	// machine is.
	unending = time.Minute
	// ending is that of a leader whose lease is to run out, and not before it
	// is cut off.
	ending = 3 * time.Second
)

// A stage is a directory that nobody can read, with the command, and with this
// test as a file that is root's and setuid.
type stage struct{ command, setuid string }

// newStage skips the test where no such file can be had.
func newStage(t *testing.T) stage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a file that is setuid for root is for root to make; run this test as root")
	}
	dir, err := os.MkdirTemp("", "leader-credentials-") //nolint:usetesting // other users cannot enter that of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("SKIPPED: %s is mounted nosuid, and no file in it can be setuid; set TMPDIR", dir)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := stage{command: filepath.Join(dir, "leader"), setuid: filepath.Join(dir, "setuid-helper")}
	copyFile(t, s.command, program, 0o755)
	copyFile(t, s.setuid, program, 0o755|os.ModeSetuid)
	return s
}

func copyFile(t *testing.T, to, from string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(out, in)
		err = errors.Join(err, out.Close(), os.Chmod(to, mode))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// host is a leader run of nobody's, whose program starts the setuid file. A
// shell stands between them: what the file is cannot be seen beforehand.
func (s stage) host(t *testing.T, srv *devtest.Server) *host {
	t.Helper()
	proxy := devtest.NewProxy(t, srv.Addr())
	return &host{
		id: "foreign", kind: foreign, url: proxy.URL(), proxy: proxy, program: s.command,
		command: []string{"/bin/sh", "-c", s.setuid + " & wait"}, as: &syscall.Credential{Uid: nobody, Gid: nobody},
	}
}

// newForeign returns an arena in which nobody's leader run leads, by leases of
// that length and in a cgroup or in none, and a host that waits.
func newForeign(t *testing.T, cgroup *os.File, lease time.Duration) (a *arena, leads, waits *host, r *leadership) {
	t.Helper()
	s := newStage(t)
	a = newEmptyArena(t)
	a.server = devtest.Start(t)
	leads = s.host(t, a.server)
	leads.cgroup, leads.lease = cgroup, lease
	// The bucket is the test's own: nobody led in one of its name before. A
	// host that waits for a lease because of that would hide who waits for one
	// in vain.
	leads.flags = []string{"--grace", "off"}
	if cgroup == nil {
		leads.flags = append(leads.flags, "--cgroup", "off")
	}
	a.add(leads)
	t.Cleanup(func() {
		for _, r := range a.terms {
			r.kill()
		}
	})
	waits, r = a.addWaiting(leads)
	return a, leads, waits, r
}

// addWaiting adds a host that waits while the other runs the program of the
// latest term. It begins again, with another one that waits, if the machine
// stalled for a lease and the program has ended.
func (a *arena) addWaiting(leads *host) (waits *host, r *leadership) {
	a.t.Helper()
	for {
		a.await(leads.id+" runs its program", func() bool {
			_, r = a.latest()
			return r != nil && r.id == leads.id && r.signs >= enough && alive(r.helper())
		})
		waits = &host{id: "waits", kind: plain, url: a.server.URL(), lease: leads.lease, flags: []string{"--grace", "off"}}
		a.add(waits)
		follows := func() bool { return strings.Contains(waits.said.tail(), strconv.Quote(leads.id)+" leads") }
		a.await(waits.id+" follows "+leads.id, func() bool { return follows() || !alive(r.helper()) })
		if alive(r.helper()) {
			return waits, r
		}
		waits.kill()
	}
}

// helper is the one process of a term.
func (r *leadership) helper() int { return slices.Collect(maps.Keys(r.pids))[0] }

// kill kills a term's processes, by root's right.
func (r *leadership) kill() {
	for pid := range r.pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

func (h *host) awaitSaid(what string) {
	h.a.t.Helper()
	h.a.await(h.id+" says "+what, func() bool { return strings.Contains(h.said.tail(), what) })
}

// stepDown asks the leader to leave, and does not wait for it.
func (a *arena) stepDown() {
	a.t.Helper()
	cmd := exec.Command(program, "step-down", "trials", "--server", a.server.URL(), "--yes", "--no-wait")
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != nobodyLeads {
		a.t.Fatalf("%v: %s", err, out)
	}
}

// nobodyLeads is the exit status of step-down where the term is over already.
const nobodyLeads = 4

// revision is that of the group's record.
func (a *arena) revision() uint64 {
	a.t.Helper()
	nc, js := devtest.Connect(a.t, a.server.URL())
	defer nc.Close()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	kv, err := js.KeyValue(ctx, "leaders")
	if err != nil {
		a.t.Fatal(err)
	}
	e, err := kv.Get(ctx, "trials")
	if err != nil {
		a.t.Fatal(err)
	}
	return e.Revision()
}

// writes yields what is written to the group's record from now on, in the order
// of the stream. (Who hears the writes before they are stored may hear what
// answers one of them first.)
func (a *arena) writes() iter.Seq[inspect.Record] {
	a.t.Helper()
	nc, _ := devtest.Connect(a.t, a.server.URL())
	sub, err := nc.SubscribeSync("leader.leaders.trials")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(nc.Close)
	return func(yield func(inspect.Record) bool) {
		for {
			m, err := sub.NextMsg(patience)
			if err != nil {
				a.t.Fatalf("no write: %v\n%s", err, a.story())
			}
			if !yield(inspect.ReadRecord(store.Entry{Value: m.Data, Revision: 1})) {
				return
			}
		}
	}
}

func TestAProcessOfAnotherUserIsNamedWhileTheTermLasts(t *testing.T) {
	a, leads, _, r := newForeign(t, nil, unending)
	leads.awaitSaid(fmt.Sprintf(`process %d ("setuid-helper", uid 0) could not be ended when the term is over`, r.helper()))
	// Who tells it to end is told, too, why it does not.
	leads.signal(syscall.SIGTERM)
	leads.awaitSaid(fmt.Sprintf(`signal 15 (terminated) does not reach process %d ("setuid-helper", uid 0): uid 65534`, r.helper()))
	r.kill()
	leads.awaitEnd()
	a.finish(nil)
}

func TestNothingIsReleasedWhileAProcessOfAnotherUserLives(t *testing.T) {
	a, leads, _, r := newForeign(t, nil, unending)
	a.stepDown()
	leads.awaitSaid(fmt.Sprintf(`process %d ("setuid-helper", uid 0) cannot be ended: uid 65534`, r.helper()))
	// A release would be seen by the other host at once, and lead to its
	// program.
	first := a.revision()
	a.await("twenty renewals", func() bool { return a.revision() >= first+20 })
	if _, now := a.latest(); now != r {
		t.Fatalf("%s runs its program beside one that lives\n%s", now.id, a.story())
	}
	// Once it has ended nobody has to wait for the lease any more.
	writes := a.writes()
	r.kill()
	for rec := range writes {
		if rec.ID == "waits" {
			t.Fatalf("the record was not released, and its lease ran out\n%s", a.story())
		}
		if rec.ID == "" {
			break
		}
	}
	a.await("the program of the other host", func() bool { _, now := a.latest(); return now.id == "waits" })
	a.finish(nil)
}

func TestAHookOfAnotherUserIsWaitedForAndNamed(t *testing.T) {
	s := newStage(t)
	a := newEmptyArena(t)
	a.server = devtest.Start(t)
	h := s.host(t, a.server)
	h.lease = unending
	h.flags, h.command = []string{"--grace", "off", "--on-promote", "exec " + s.setuid, "--timeout", "2s"}, []string{"/bin/sleep", "600"}
	a.add(h)
	_, r := a.awaitTerm(0)
	t.Cleanup(r.kill)
	h.awaitSaid(fmt.Sprintf(`setuid-helper" cannot be ended: uid 65534 may not signal process %d`, r.helper()))
	r.kill()
	h.awaitSaid("started /bin/sleep")
	h.signal(syscall.SIGTERM)
	h.awaitEnd()
}

// Of a host that is cut off the lease runs out, whatever it does. What is left
// to do is to say so, and not to begin anew beside what is left of the last
// term.
func TestAHostWhoseProgramLivesOnDoesNotLeadAgain(t *testing.T) {
	a, leads, waits, r := newForeign(t, nil, ending)
	term, _ := a.latest()
	leads.proxy.Hold(devtest.ToServer, devtest.ToClient)
	leads.awaitSaid("THE LEASE HAS RUN OUT while process " + strconv.Itoa(r.helper()))
	term, _ = a.awaitTerm(term)
	leads.proxy.Resume()
	waits.kill()
	// Nobody else is there, and its lease runs out; twice that is the trial's
	// own length.
	a.rest(2 * ending)
	a.look()
	if now, by := a.latest(); now != term {
		t.Fatalf("%s leads in term %d while its last program lives\n%s", by.id, now, a.story())
	}
	r.kill()
	if _, by := a.awaitTerm(term); by.id != "foreign" {
		t.Errorf("%s leads", by.id)
	}
	leads.awaitSaid("what could not be ended has ended by itself")
}

func TestAProgramThatCouldNotBeEndedIsRefused(t *testing.T) {
	s := newStage(t)
	srv := devtest.Start(t)
	// Not by its rights, which only the true one has, but by its name.
	sudo := filepath.Join(filepath.Dir(s.command), "sudo")
	copyFile(t, sudo, "/bin/true", 0o755)
	for name, c := range map[string]struct {
		as    uint32
		flags []string
		runs  string
		code  int
		says  string
	}{
		"by its name":          {nobody, []string{"--cgroup", "off"}, sudo, 126, "sudo starts programs as another user, and uid 65534"},
		"by its file":          {nobody, []string{"--cgroup", "off"}, s.setuid, 126, "setuid-helper is setuid, and may become uid 0"},
		"not if that is meant": {nobody, []string{"--cgroup", "off", "--allow-setuid"}, sudo, 0, "may not be able to end it"},
		"not with the right":   {0, []string{"--cgroup", "off"}, sudo, 0, "ended with status 0"},
		"nor without a cgroup": {nobody, []string{"--cgroup", "require"}, "/bin/true", 1, "--cgroup require: "},
		"nor in no cgroup":     {nobody, []string{"--cgroup", "/no/such/place"}, "/bin/true", 1, "/no/such/place"},
	} {
		t.Run(name, func(t *testing.T) {
			// The bucket is the test's own: nobody led in one of its name
			// before.
			args := append([]string{"run", "refused", "--server", srv.URL(), "--grace", "off"}, c.flags...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, s.command, append(args, "--", c.runs)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.as, Gid: c.as}}
			said, _ := cmd.CombinedOutput() // the status tells
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(said), c.says) {
				t.Errorf("exit status %d, want %d, and that it says %q:\n%s", code, c.code, c.says, said)
			}
		})
	}
}

// newCgroup returns a cgroup of nobody's, for a leader run of nobody's to start
// in. It skips the test where none can be made.
func newCgroup(t *testing.T) (dir string, open *os.File) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.Contains(line, " - cgroup2 ") && len(f) > 4 {
			dir, err = os.MkdirTemp(f[4], "leader-test-") //nolint:usetesting // this makes a cgroup
		}
	}
	if err != nil || dir == "" {
		t.Skipf("SKIPPED: --cgroup is not tested here, since this machine lets nobody make a cgroup of version 2 (%v)", err)
	}
	t.Cleanup(func() { removeCgroup(t, dir) })
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		t.Skipf("SKIPPED: --cgroup is not tested here: %v", err)
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	open, err = os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	return dir, open
}

// removeCgroup ends what is left in a cgroup, and removes it.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // it may be empty
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(patience); ; <-retry.C {
		for _, below := range runsIn(t, dir) {
			_ = unix.Rmdir(below) // as above
		}
		err := unix.Rmdir(dir)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", dir, err)
		}
	}
}

// runsIn returns the cgroups of runs.
func runsIn(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "leader-run-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestACgroupEndsWhatMayNotBeSignalled(t *testing.T) {
	for name, strike := range map[string]func(a *arena, leads *host){
		"the term is over":              func(a *arena, _ *host) { a.stepDown() },
		"the host is cut off":           func(_ *arena, leads *host) { leads.proxy.Hold(devtest.ToServer, devtest.ToClient) },
		"the guard is killed":           func(_ *arena, leads *host) { leads.signalGuard(syscall.SIGKILL) },
		"the candidate is killed":       func(_ *arena, leads *host) { leads.kill() },
		"the guard hangs, all are gone": func(_ *arena, leads *host) { leads.signalGuard(syscall.SIGSTOP); leads.proxy.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			dir, open := newCgroup(t)
			a, leads, waits, r := newForeign(t, open, ttl)
			runs := runsIn(t, dir)
			for ; len(runs) != 1; runs = runsIn(t, dir) {
				// The cgroup is there for as long as the program is.
				if alive(r.helper()) {
					t.Fatalf("cgroups of runs: %q\n%s", runs, a.story())
				}
				waits.kill() // the machine stalled for a lease
				waits, r = a.addWaiting(leads)
			}
			term, _ := a.latest()
			helper := r.helper()
			strike(a, leads)
			a.awaitTerm(term)
			if alive(helper) {
				t.Error("the program of before lives")
			}
			if said := leads.said.tail(); strings.Contains(said, "cannot be ended") {
				t.Error(said)
			}
			// If the machine stalls for the next lease, the host leads and runs its
			// program again, in a cgroup of another name.
			a.await("the cgroup of the run is gone", func() bool { return !slices.Contains(runsIn(t, dir), runs[0]) })
			leads.kill()
			a.finish(nil)
		})
	}
}
