//go:build unix

package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
)

// A reload of all hosts, as of a fleet's logging, must not leave one standby.
func TestAStandbyOutlivesSIGHUP(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	first := startRun(t, url, []string{"--id", "a"}, "echo up; exec sleep 600")
	first.line()
	second := startRun(t, url, []string{"--id", "b"}, "echo up; exec sleep 600")
	second.awaitSaid(`leader: waiting: "a" leads jobs`)
	second.signal(syscall.SIGHUP)
	first.signal(syscall.SIGTERM)
	if l := second.line(); l != "up" {
		t.Error(l)
	}
}

func TestAStopTimeoutThatIsGivenBoundsTheEndAfterASignal(t *testing.T) {
	t.Parallel()
	r := startRun(t, devtest.Serve(t), []string{"--stop-timeout", "100ms"}, `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	r.line()
	r.signal(syscall.SIGTERM)
	if _, code := r.end(); code != 128+9 {
		t.Errorf("exit status %d", code)
	}
	r.awaitSaid("leader: stopping sh: leader run was asked to end; SIGKILL follows within 100ms")
}

// A master that passes signals on would have its workers get each twice.
func TestSignalsGoToTheFirstProcessAloneIfTheKillModeIsMixed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startRun(t, devtest.Serve(t), []string{"--kill-mode", "mixed", "--stop-signal", "USR1"}, `cd `+dir+`
		trap ': >told; kill -USR1 $worker; wait; echo master; exit 3' USR1
		(trap 'if test -e told; then echo told by the master; else echo told by others; fi; exit' USR1
			: >ready; while :; do sleep 0.05; done) & worker=$!
		until test -e ready; do sleep 0.05; done
		echo up
		wait`)
	r.line()
	r.signal(syscall.SIGTERM)
	if said, code := r.end(); code != 3 || !slices.Equal(said, []string{"told by the master", "master"}) {
		t.Errorf("exit status %d, the program prints %q", code, said)
	}
}

// systemd passes the sockets of a service from number 3 on, and names the
// process that they are for.
func TestTheProgramGetsTheFilesThatLeaderRunWasStartedWith(t *testing.T) {
	t.Parallel()
	var files []*os.File
	for _, text := range []string{"one\n", "two\n"} {
		reader, writer, err := os.Pipe()
		if err == nil {
			_, err = writer.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = writer.Close()
		t.Cleanup(func() { _ = reader.Close() })
		files = append(files, reader)
	}
	cmd := cmdVia(command(t, nil, "run", "jobs", "--server", devtest.Serve(t), "--",
		"sh", "-c", `cat <&3; cat <&4; test $LISTEN_PID = $$ && echo "for me"`),
		"sh", "-c", `LISTEN_FDS=2 LISTEN_PID=$$ exec "$@"`, "sh")
	cmd.ExtraFiles = files
	if said, _ := followCommand(t, cmd).end(); !slices.Equal(said, []string{"one", "two", "for me"}) {
		t.Errorf("the program prints %q", said)
	}
}

// A script that ends would be run by each host in turn.
func TestAProgramThatEndsWithinALeaseGetsToKnowOfOnce(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	for flags, want := range map[string]bool{"--on-exit=release": true, "--try": false, "--once --every=" + long: false} {
		args := append([]string{"run", "g" + flags[2:4], "--server", url}, strings.Fields(flags)...)
		code, _, stderr := execute(t, nil, append(args, "--", "true")...)
		if got := strings.Contains(stderr, "warning: true ended within a lease"); code != 0 || got != want {
			t.Errorf("%s: exit status %d, it warns: %v\n%s", flags, code, got, stderr)
		}
	}
}

func TestHostsWithOtherNumbersOfSlotsWarnOfEachOther(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	const program = "echo up; exec sleep 600"
	two := []*running{startRun(t, url, []string{"-n", "2", "--id", "a"}, program), startRun(t, url, []string{"-n", "2", "--id", "b"}, program)}
	for _, r := range two {
		r.line()
	}
	three := startRun(t, url, []string{"-n", "3", "--id", "c"}, program)
	three.awaitSaid("with --slots 2, and this host has --slots 3")
	three.line() // in the third slot, which belongs to neither
	for _, r := range two {
		r.awaitSaid("with --slots 3, and this host has --slots 2")
		r.signal(syscall.SIGTERM)
	}
	three.signal(syscall.SIGTERM)
	three.end()
	for _, id := range []string{"d", "f"} { // one of which leads a slot of both
		startRun(t, url, []string{"-n", "3", "--id", id}, program).line()
	}
	startRun(t, url, []string{"-n", "2", "--id", "e"}, program).awaitSaid("with --slots 3, and this host has --slots 2")
}
