package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// suggested is the URL of the store that the error of --dev names.
var suggested = regexp.MustCompile(`--store '(.+)'\n`)

// For the store of another vendor --dev prints how to start a server, and the
// URL to use then, which the command understands: it fails for want of a server
// (1), and not as wrong usage (2).
func TestDevPrintsHowToStartAServerOfAnotherStore(t *testing.T) {
	home := t.TempDir()
	cluster := `{"apiVersion": "v1", "kind": "Config", "current-context": "kind", "contexts": [{"name": "kind", "context": {"cluster": "kind"}}],
"clusters": [{"name": "kind", "cluster": {"server": "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(filepath.Join(home, "config"), []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		cmd := exec.CommandContext(desk{TB: t}.within(), program, args...)
		cmd.Env = []string{"HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "config")}
		out, _ := cmd.CombinedOutput() // the exit status shows it
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, scheme := range []string{
		"redis", "postgres", "mysql", "etcd", "consul", "k8s", "s3", "gs", "mongodb",
		"rediss", "postgresql", "mariadb", "etcds", "consuls", "mongodb+srv",
	} {
		code, out := run("ls", "--dev", "--store", scheme+"://")
		found := suggested.FindStringSubmatch(out)
		if code != 2 || found == nil || !strings.Contains(out, "--dev: starts a NATS server alone, and --store names "+scheme+"://") {
			t.Errorf("%s: exit status %d\n%s", scheme, code, out)
			continue
		}
		if code, out := run("ls", "--store", found[1], "--timeout", "500ms"); code == 2 {
			t.Errorf("%s: %s is refused:\n%s", scheme, found[1], out)
		}
	}
	if code, out := run("ls", "--dev", "--store", "gopher://"); code != 2 || !strings.Contains(out, "--store names gopher://") {
		t.Errorf("gopher: exit status %d\n%s", code, out)
	}
}
