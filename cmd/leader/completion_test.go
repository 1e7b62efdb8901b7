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

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
)

// bashComplete asks a bash with the script loaded for what it would offer at the end of the line.
const bashComplete = `
source "$SCRIPT"
COMP_LINE=$LINE COMP_POINT=${#LINE}
# As readline does: words end at spaces, and = and : are words of their own.
mapfile -t COMP_WORDS < <(sed -E 's/[=:]/\n&\n/g; s/[[:space:]]+/\n/g' <<<"$LINE" | sed '/^$/d')
[[ $LINE == *[[:space:]] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { echo "compopt $*"; }
_leader
printf '%s\n' "${COMPREPLY[@]}"
`

const fishComplete = `source $SCRIPT; complete -C "$LINE"`

// zshComplete runs an interactive zsh on a terminal of its own, and lists what it was told to offer.
const zshComplete = `
autoload -Uz compinit && compinit -u -d "$HOME/dump"
source "$SCRIPT"
_describe() { local -a all=("${(@P)2}"); print -l -- "${(@)all%%:*}"; }
_files() { print compopt -o default; }
words=("${(@s: :)LINE}") CURRENT=$#words
_leader
`

func TestShellsComplete(t *testing.T) {
	url := electionsToComplete(t)
	shells := []struct{ name, driver string }{{"bash", bashComplete}, {"zsh", zshComplete}, {"fish", fishComplete}}
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			path, err := exec.LookPath(shell.name)
			if err != nil {
				t.Skipf("%s is not installed", shell.name)
			}
			script := filepath.Join(t.TempDir(), "script")
			code, out, stderr := runProgram(t, nil, "completion", shell.name)
			if code != 0 || stderr != "" {
				t.Fatalf("exit status %d, stderr %q", code, stderr)
			}
			if err := os.WriteFile(script, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			ask := func(line string, env ...string) []string {
				cmd := command(t, append(env, "SCRIPT="+script, "LINE="+line, "HOME="+t.TempDir(), "XDG_CONFIG_HOME=",
					"PATH="+named(t)+string(os.PathListSeparator)+os.Getenv("PATH")))
				cmd.Path, cmd.Args = path, []string{shell.name, "-c", shell.driver}
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				return offered(string(out))
			}
			checkShell(t, shell.name, url, ask)
		})
	}
}

func checkShell(t *testing.T, shell, url string, ask func(string, ...string) []string) {
	t.Helper()
	for _, c := range []struct {
		line string
		want []string
	}{
		{"leader st", []string{"step-down"}},
		{"leader help st", []string{"step-down"}},
		{"leader ls --ou", []string{"--output"}},
		{"leader ls -o y", []string{"yaml"}},
		{"leader history en", []string{"enable"}},
		{"leader get -s " + url + " jo", []string{"jobs.eu"}},
		{"leader get --server=" + url + " ", []string{"a=b", "jobs.eu", "reports"}},
		{"leader get -s " + url + " a=", []string{"a=b"}},
		{"leader ls --output=js", []string{"--output=json"}},
	} {
		got := ask(c.line)
		if shell == "bash" { // which replaces only what follows the last = or :
			for i, want := range c.want {
				if at := strings.LastIndexByte(c.line, ' '); strings.Contains(c.line[at:], "=") {
					_, c.want[i], _ = strings.Cut(want, "=")
				}
			}
		}
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

// named returns a directory with the program under the name that the scripts complete.
func named(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "leader")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// electionsToComplete returns the URL of a server with three groups in the default bucket.
func electionsToComplete(t *testing.T) string {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the server does not accept connections")
	}
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
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
	return srv.ClientURL()
}

func TestCompletionNeedsNoServer(t *testing.T) {
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, url := range []string{"nats://127.0.0.1:1", "nats://" + silent.Addr().String(), "://"} {
		code, out, stderr := runProgram(t, []string{"XDG_CONFIG_HOME=" + t.TempDir()}, "complete", "--", "get", "--server", url, "")
		if code != 0 || out != ":words\n" || stderr != "" {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", url, code, out, stderr)
		}
	}
}
