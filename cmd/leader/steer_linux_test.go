package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a terminal.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

func TestPersonAtATerminalIsAskedBefore(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand(steered, "a")
	for _, c := range []struct {
		answer string
		code   int
		paused bool
	}{{"n\n", 1, false}, {"\n", 1, false}, {"Yes\n", 0, true}} {
		ours, theirs := openTerminal(t)
		cmd := command(t, []string{"NATS_URL=" + l.url}, "pause", steered, "--timeout", "60s")
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, &out, &errs
		if _, err := ours.WriteString(c.answer); err != nil {
			t.Fatal(err)
		}
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%q: %v, stderr %q", c.answer, err, errs.String())
		}
		if !strings.Contains(errs.String(), `"a" (term `) || !strings.Contains(errs.String(), "Go on? [y/N]") {
			t.Errorf("%q: stderr %q", c.answer, errs.String())
		}
		if (out.Len() > 0) != c.paused || l.asked().Paused != c.paused {
			t.Errorf("%q: stdout %q, asked %+v", c.answer, out.String(), l.asked())
		}
	}
	if by := l.asked().PausedBy; !strings.Contains(by, "@") {
		t.Errorf("paused by %q, want the user at this host", by)
	}
}
