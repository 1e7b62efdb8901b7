//go:build unix

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
)

// bashComplete asks a bash with the script loaded for what it would offer at
// the end of the line. _init_completion is what the package bash-completion
// has.
const bashComplete = `
_init_completion() {
	read -ra words <<<"$LINE"
	[[ $LINE == *[[:space:]] ]] && words+=("")
	cword=$((${#words[@]} - 1)) cur=${words[cword]} prev=${words[cword - 1]}
}
__ltrim_colon_completions() { :; }
compopt() { :; }
source "$SCRIPT"
COMP_TYPE=63 # the names are listed, with what they mean
COMP_LINE=$LINE COMP_POINT=${#LINE}
__start_leader
printf '%s\n' "${COMPREPLY[@]%% *}"
`

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	url := electionsToComplete(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(scriptFor(t, "bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	checkShell(t, url, func(line string, env ...string) []string {
		cmd := command(t, append(env, "SCRIPT="+script, "LINE="+line, "HOME="+t.TempDir(), "XDG_CONFIG_HOME=",
			"PATH="+linked(t)+string(os.PathListSeparator)+os.Getenv("PATH")))
		cmd.Path, cmd.Args = bash, []string{"bash", "-c", bashComplete}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return offered(string(out))
	})
}

func scriptFor(t *testing.T, shell string) string {
	t.Helper()
	code, out, stderr := runProgram(t, nil, "completion", shell)
	if code != 0 || stderr != "" || !strings.Contains(out, " __complete ") {
		t.Fatalf("%s: exit status %d, stderr %q\n%s", shell, code, stderr, out)
	}
	return out
}

func TestOtherShellsHaveScriptsToo(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"zsh", "fish", "powershell"} {
		scriptFor(t, shell)
	}
}

func checkShell(t *testing.T, url string, ask func(string, ...string) []string) {
	t.Helper()
	for _, c := range []struct {
		line string
		want []string // after the last =, where bash begins a word
	}{
		{"leader st", []string{"step-down"}},
		{"leader help st", []string{"step-down"}},
		{"leader ls --ou", []string{"--output"}},
		{"leader ls -o y", []string{"yaml"}},
		{"leader history en", []string{"enable"}},
		{"leader get -s " + url + " jo", []string{"jobs.eu"}},
		{"leader get --server=" + url + " ", []string{"a=b", "jobs.eu", "reports"}},
		{"leader get -s " + url + " a=", []string{"b"}},
		{"leader ls --output=js", []string{"json"}},
	} {
		got := ask(c.line)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: offered %q, want %q", c.line, got, c.want)
		}
	}
	if got := ask("leader get re", "NATS_URL="+url); !slices.Equal(got, []string{"reports"}) {
		t.Errorf("with NATS_URL: offered %q", got)
	}
}

// offered returns the words without what they mean, in order.
func offered(out string) (words []string) {
	for line := range strings.Lines(out) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); word != "" {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return words
}

// linked returns a directory with the program under the name that the scripts
// complete.
func linked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "leader")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// electionsToComplete returns the URL of a server with three groups in the
// default bucket.
func electionsToComplete(t *testing.T) string {
	t.Helper()
	url := devtest.Serve(t)
	nc, _ := devtest.Connect(t, url)
	for _, group := range []string{"reports", "jobs.eu", "a=b"} {
		e, err := leader.NewElection(nc, leader.ElectionConfig{
			Bucket: "leaders", BucketAutoCreate: true, Group: group, InstanceID: "w1", TTL: 30 * time.Second, HeartbeatInterval: time.Second,
			AcquireGrace: leader.GraceOff,
		})
		if err != nil {
			t.Fatal(err)
		}
		promoted := make(chan struct{})
		e.OnPromote(func(context.Context, string) { close(promoted) })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop() })
		select {
		case <-promoted:
		case <-time.After(patience):
			t.Fatalf("nobody leads %s", group)
		}
	}
	return url
}

func TestCompletionNeedsNoServer(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, url := range []string{"nats://127.0.0.1:1", "nats://" + silent.Addr().String(), "://"} {
		code, out, _ := runProgram(t, nil, "__complete", "get", "--server", url, "")
		if code != 0 || out != ":4\n" {
			t.Errorf("%s: exit status %d, stdout %q", url, code, out)
		}
	}
}
