package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// shown is what a terminal of so many columns shows when a command has ended,
// with the sequences that colour it.
func shown(t *testing.T, columns, line string, env ...string) string {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("no tmux")
	}
	socket := t.TempDir() + "/tmux"
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), tmux, append([]string{"-S", socket, "-f", os.DevNull}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v %s", args, err, out)
		}
		return string(out)
	}
	run("new-session", "-d", "-s", "s", "-x", columns, "-y", "60", "env -u NO_COLOR -u NATS_URL "+strings.Join(env, " ")+" "+program+" "+line+"; echo THE END; read line")
	defer func() { _ = exec.Command(tmux, "-S", socket, "kill-server").Run() }()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if screen, _, over := strings.Cut(run("capture-pane", "-e", "-p", "-t", "s"), "THE END"); over {
			return screen
		}
	}
	t.Fatalf("%s does not end", line)
	return ""
}

// As a person sees it: lines end between words, columns for which there is no
// room are named, and what is wrong is red.
func TestATerminalIsFilledWithWholeWordsAndColours(t *testing.T) {
	t.Parallel()
	screen := shown(t, "80", "ls --dev -o wide")
	for _, want := range []string{"migration", "\x1b[1m", "\x1b[31m-", "LEASE"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	plain := strings.Join(strings.Fields(ansi.Strip(screen)), " ")
	if !strings.Contains(plain, "Not shown, for want of room: META, CORRELATION") {
		t.Errorf("not said what is left out:\n%s", plain)
	}
	screen = shown(t, "80", "doctor --dev --timeout 60s")
	if !strings.Contains(screen, "\n                  nobody is elected or kept") || !strings.Contains(ansi.Strip(screen), "warn  paused") {
		t.Errorf("findings are not folded under their text:\n%s", screen)
	}
	if screen := shown(t, "80", "ls --dev -o wide", "NO_COLOR=1"); strings.Contains(screen, "\x1b") || !strings.Contains(screen, "GROUP") {
		t.Errorf("coloured in spite of NO_COLOR: %q", screen)
	}
	// A sentence on the standard error, which is longer than a line.
	if screen := shown(t, "40", "get nosuch --dev"); !strings.Contains(screen, "\n  ") || strings.Contains(strings.ReplaceAll(screen, "\n  ", " "), "\n ") {
		t.Errorf("%s", screen)
	}
	if _, out, _ := runProgram(t, nil, "ls", "--dev"); strings.Contains(out, "\x1b") {
		t.Errorf("coloured in a pipe: %q", out)
	}
}
