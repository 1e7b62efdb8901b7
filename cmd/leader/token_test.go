package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
)

func TestTokenIsVerifiedAgainstTheRecord(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand("reports", "a")
	term := a.Term()
	number := strconv.FormatUint(term.Number, 10)
	newer := strconv.FormatUint(term.Number+1, 10)
	verify := func(want int, env []string, in string, args ...string) string {
		t.Helper()
		code, out, errs := runWithInput(t, in, append(env, "NATS_URL="+l.url), append([]string{"token", "verify"}, args...)...)
		if code != want || strings.Contains(out+errs, term.Token) {
			t.Errorf("%q: exit status %d, want %d: %s%s", args, code, want, out, errs)
		}
		verdict, _, _ := strings.Cut(out+errs, ":")
		return verdict
	}
	for name, c := range map[string]struct {
		got, want string
	}{
		"environment": {verify(0, []string{"LEADER_TERM=" + number, "LEADER_TOKEN=" + term.Token}, "", "reports"), "current"},
		"stdin":       {verify(0, nil, term.Token+"\n", "reports", "--term", number, "--term-token", "-"), "current"},
		"term alone":  {verify(0, nil, "", "reports", "--term", number), "current"},
		"mismatch":    {verify(1, nil, "other", "reports", "--term", number, "--term-token=-"), "mismatch"},
		"older":       {verify(1, nil, "", "reports", "--term", "1"), "stale"},
		"newer":       {verify(1, nil, "", "reports", "--term", newer), "unknown"},
		"no token":    {verify(2, nil, "", "reports", "--term", number, "--term-token", "-"), "leader"},
		"no term":     {verify(2, nil, "", "reports"), "leader"},
		"no group":    {verify(4, nil, "", "nosuch", "--term", number), "leader"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := verify(1, nil, "", "reports", "--term", number); got != "stale" {
		t.Errorf("after the release: %q", got)
	}
	var v read.Verdict
	out, _ := l.run(1, "token", "verify", "reports", "--term", number, "-o", "json")
	decodeStrictly(t, out, &v)
	if v != (read.Verdict{Group: "reports", Term: term.Number, Verdict: "stale", CurrentTerm: term.Number}) {
		t.Errorf("%s", out)
	}
}

// ok runs a command that has to succeed, and returns what it printed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out, stderr := runProgram(t, nil, args...)
	if code != 0 || stderr != "" {
		t.Fatalf("leader %q: exit status %d, %s", args, code, stderr)
	}
	return strings.TrimSpace(out)
}

func TestProofsAreSignedAndVerifiedWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, next, keys, foreign := filepath.Join(dir, "a.pem"), filepath.Join(dir, "b.pem"), filepath.Join(dir, "set"), filepath.Join(dir, "other")
	id := ok(t, "token", "keygen", "--key", key, "--keys", keys)
	ok(t, "token", "keygen", "--key", filepath.Join(dir, "c.pem"), "--keys", foreign)
	sign := func(key string, more ...string) string {
		return ok(t, append([]string{"token", "sign", "reports", "--key", key, "--id", "host-1", "--term", "7", "--term-token", "t", "--for", "10m"}, more...)...)
	}
	good := sign(key)
	for _, c := range []struct {
		name, group, verdict string
		code                 int
		args                 []string
	}{
		{"good", "reports", "valid", 0, []string{"--proof", good}},
		{"good, of the largest term", "reports", "valid", 0, []string{"--proof", good, "--min-term", "7"}},
		{"good, of an older term", "reports", "stale", 1, []string{"--proof", good, "--min-term", "8"}},
		{"for another group", "other", "invalid", 1, []string{"--proof", good}},
		{"by another key", "reports", "invalid", 1, []string{"--proof", good, "--keys", foreign}},
		{"for nobody in particular", "reports", "invalid", 1, []string{"--proof", good, "--audience", "archive"}},
		{"for the audience", "reports", "valid", 0, []string{"--proof", sign(key, "--audience", "archive"), "--audience", "archive"}},
		{"forged", "reports", "invalid", 1, []string{"--proof", good[:len(good)-4] + "AAAA"}},
		{"too short for the skew", "reports", "expired", 1, []string{"--proof", good, "--skew", "1h"}},
		{"without skew", "reports", "valid", 0, []string{"--proof", good, "--skew", "0s"}},
	} {
		args := append([]string{"token", "verify", c.group, "--offline", "--keys", keys}, c.args...)
		code, out, stderr := runProgram(t, nil, args...)
		if word, _, _ := strings.Cut(out, ":"); code != c.code || word != c.verdict || stderr != "" {
			t.Errorf("%s: exit status %d, %s%s", c.name, code, out, stderr)
		}
		code, out, _ = runProgram(t, []string{"LEADER_TERM=99"}, append(args, "-o", "json")...)
		var v read.Verdict
		if err := json.Unmarshal([]byte(out), &v); err != nil || code != c.code || v.Verdict != c.verdict || (v.Why == "") != (v.Until != nil) {
			t.Errorf("%s: exit status %d, %s: %v", c.name, code, out, err)
		}
		if v.Until != nil && (v.Term != 7 || v.Leader != "host-1" || v.Key != id) {
			t.Errorf("%s: %s", c.name, out)
		}
	}

	// The overlap of two keys.
	if second := ok(t, "token", "keygen", "--key", next, "--keys", keys); second == id {
		t.Error("the same key again")
	}
	for _, text := range []string{good, sign(next)} {
		ok(t, "token", "verify", "reports", "--offline", "--keys", keys, "--proof", text)
	}
}

func TestKeygenKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, keys := filepath.Join(dir, "a.pem"), filepath.Join(dir, "set")
	id := ok(t, "token", "keygen", "--key", key, "--keys", keys)
	if info, err := os.Stat(key); err != nil || runsOnUnix() && info.Mode().Perm() != 0o600 {
		t.Errorf("the key is there for others to read: %v, %v", info.Mode(), err)
	}
	before, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	if again := ok(t, "token", "keygen", "--key", key, "--keys", keys); again != id {
		t.Errorf("another key: %s", again)
	}
	if after, err := os.ReadFile(keys); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the set changed: %s, %v", after, err)
	}
	// A file with other content is not overwritten.
	if code, _, stderr := runProgram(t, nil, "token", "keygen", "--key", keys, "--keys", key); code != 1 || !strings.Contains(stderr, "unusable key") {
		t.Errorf("exit status %d, %s", code, stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("files are left behind: %v, %v", entries, err)
	}
}

func TestWrongUsageOfProofsIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, keys := filepath.Join(dir, "a.pem"), filepath.Join(dir, "set")
	ok(t, "token", "keygen", "--key", key, "--keys", keys)
	for name, args := range map[string][]string{
		"no keys":          {"verify", "reports", "--offline"},
		"keys online":      {"verify", "reports", "--term", "7", "--keys", keys},
		"proof online":     {"verify", "reports", "--term", "7", "--proof", "x"},
		"audience online":  {"verify", "reports", "--term", "7", "--audience", "x"},
		"largest online":   {"verify", "reports", "--term", "7", "--min-term", "8"},
		"negative skew":    {"verify", "reports", "--offline", "--keys", keys, "--skew=-1s"},
		"an empty proof":   {"verify", "reports", "--offline", "--keys", keys},
		"no group":         {"sign", "a b", "--key", key, "--id", "x", "--term", "7", "--term-token", "t"},
		"no term":          {"sign", "reports", "--key", key, "--id", "x", "--term-token", "t"},
		"term 0":           {"sign", "reports", "--key", key, "--id", "x", "--term", "0", "--term-token", "t"},
		"no key":           {"sign", "reports", "--key", key + "x", "--id", "x", "--term", "7", "--term-token", "t"},
		"too short":        {"sign", "reports", "--key", key, "--id", "x", "--term", "7", "--term-token", "t", "--for", "1us"},
		"one file of two":  {"keygen", "--key", key},
		"one file twice":   {"keygen", "--key", key + "2", "--keys", key + "2"},
		"one, in two ways": {"keygen", "--key", key + "2", "--keys", filepath.Dir(key) + "/./" + filepath.Base(key) + "2"},
	} {
		if code, out, stderr := runProgram(t, nil, append([]string{"token"}, args...)...); code != 2 || out != "" || stderr == "" {
			t.Errorf("%s: exit status %d, %q, %q", name, code, out, stderr)
		} else if name == "term 0" && !strings.Contains(stderr, "--term 0: must be positive") {
			t.Errorf("%s: %q", name, stderr)
		}
	}
}

// The command signs as the package does.
func TestSignedProofHasTheDigestAndNotTheToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, keys := filepath.Join(dir, "a.pem"), filepath.Join(dir, "set")
	ok(t, "token", "keygen", "--key", key, "--keys", keys)
	code, out, stderr := runProgram(t, []string{"LEADER_TERM=7", "LEADER_TOKEN=the-token", "LEADER_ID=host-1"}, "token", "sign", "reports", "--key", key, "--for", "10m")
	set, err := proof.ReadKeySet(keys)
	if err != nil || code != 0 {
		t.Fatalf("%v; exit status %d, %s", err, code, stderr)
	}
	v, err := proof.NewVerifier("reports", set, proof.VerifierOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := v.Verify(strings.TrimSpace(out))
	if err != nil || s.Mark() != (fence.Mark{Term: 7, Digest: fence.Digest("the-token")}) || s.Leader != "host-1" {
		t.Errorf("%v, %v", s, err)
	}
}
