//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/proof"
)

// keyed returns the file of a new key, and what verifies its proofs.
func keyed(t *testing.T, audience string) (file string, v *proof.Verifier) {
	t.Helper()
	file, keys := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "keys")
	ok(t, "token", "keygen", "--key", file, "--keys", keys)
	set, err := proof.ReadKeySet(keys)
	if err != nil {
		t.Fatal(err)
	}
	v, err = proof.NewVerifier("jobs", set, proof.VerifierOptions{Audience: audience})
	if err != nil {
		t.Fatal(err)
	}
	return file, v
}

// The program reads its proof from a file, in which another one stands by and
// by; one that verifies has the group's public keys and no server.
func TestTheProgramHasAProofThroughoutItsTerm(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	key, v := keyed(t, "archive")
	r := startRun(t, url, []string{"--id", "host-1", "--ttl", "3s", "--proof-key", key, "--proof-for", "archive"},
		`echo "$LEADER_PROOF_FILE"; echo "$LEADER_TERM"; last=; n=0
		while [ $n -lt 3 ]; do now=$(cat "$LEADER_PROOF_FILE"); if [ "$now" != "$last" ]; then echo "$now"; last=$now; n=$((n + 1)); fi; sleep 0.05; done
		sleep 1000`)
	file, term := r.line(), r.line()
	seen := map[string]bool{}
	for range 3 {
		text := r.line()
		s, err := v.Accept(t.Context(), text)
		if err != nil || s.Leader != "host-1" || seen[text] || term != strconv.FormatUint(s.Term, 10) {
			t.Errorf("in term %s: %v, %v", term, s, err)
		}
		seen[text] = true
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	r.signal(syscall.SIGTERM)
	r.end()
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the proof is left behind: %v", err)
	}
}

func TestRunRefusesAKeyThatSignsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--proof-key: " + file:                {"--proof-key", file},
		"--proof-for: needs --proof-key":      {"--proof-for", "archive"},
		"--proof-key: stat " + file + ".none": {"--proof-key", file + ".none"},
	} {
		code, _, stderr := execute(t, nil, append(append([]string{"run", "jobs", "-s", "nats://127.0.0.1:1"}, args...), "--", "true")...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, %s", args, code, stderr)
		}
	}
}

// A host that is frozen leaves its last proof behind, in a file that anyone may
// still send. Its time is over when another host leads.
func TestProofOfAFrozenHostIsRefusedWhenAnotherLeads(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	key, v := keyed(t, "")
	host := func(id string) *running {
		return startRun(t, url, []string{"--id", id, "--ttl", "3s", "--proof-key", key}, `echo "$LEADER_PROOF_FILE"; exec sleep 1000`)
	}
	shown := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	a := host("a")
	left := a.line()
	if s, err := v.Accept(t.Context(), shown(left)); err != nil || s.Leader != "a" {
		t.Fatalf("%v, %v", s, err)
	}
	b := host("b")
	b.awaitSaid(`waiting: "a" leads`)
	a.signal(syscall.SIGSTOP)
	next := b.line()
	if _, err := v.Verify(shown(left)); !errors.Is(err, proof.ErrExpired) {
		t.Errorf("the proof that the frozen host left: %v", err)
	}
	if s, err := v.Accept(t.Context(), shown(next)); err != nil || s.Leader != "b" {
		t.Errorf("the proof of the host that leads: %v, %v", s, err)
	}
}

// A process that is killed removes nothing.
func TestProofOfAKilledRunIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	key, _ := keyed(t, "")
	tmp := []string{"TMPDIR=" + t.TempDir()}
	run := func(id string) (r *running, file string) {
		r = followIn(t, tmp, []string{
			"run", "jobs", "--server", url, "--id", id, "--ttl", "3s", "--proof-key", key, "--", "sh", "-c", `echo "$LEADER_PROOF_FILE"; exec sleep 600`,
		})
		file = r.line()
		return r, file
	}
	killed, left := run("a")
	killed.signal(syscall.SIGKILL)
	killed.end()
	if _, err := os.Stat(left); err != nil {
		t.Fatalf("there is nothing to remove: %v", err)
	}
	_, file := run("b")
	if _, err := os.Stat(filepath.Dir(left)); !os.IsNotExist(err) {
		t.Errorf("it is left behind: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
