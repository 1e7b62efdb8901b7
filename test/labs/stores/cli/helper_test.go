package cli_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
)

// renewals is how often a leader has renewed, according to its metrics.
var renewals = regexp.MustCompile(`(?m)^election_heartbeat_duration_seconds_count\{.*status="ok".*\} (\d+)`)

// failures are the metrics of failures that happened. Some kinds are shown before
// they do, as 0.
var failures = regexp.MustCompile(`(?m)^election_failures.* [1-9].*$`)

// A client of Kubernetes may run a program that fetches its credentials, as the
// clients of the large clouds do. leader run waits for the ends of processes,
// and must not consume the end of the helper, which then counts as failed.
func TestRunLeavesTheClientItsCredentialHelper(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	account := srv.ServiceAccount("default", "runner", kubelab.Rule{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
		Verbs: []string{"get", "list", "watch", "create", "update", "delete"},
	})
	d := desk{t, "k8s://default?kubeconfig=" + url.QueryEscape(helped(t, srv, account.BearerToken))}
	page := fmt.Sprintf("127.0.0.1:%d", ports.Free(t, 1)[0])
	d.start("begun", "run", "jobs", "--id", "a", "--ttl", "15s", "--heartbeat", "20ms", "--http", page, "--", "sh", "-c", "echo begun; exec tail -f /dev/null")
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for ctx := d.within(); ; {
		body := d.fetch(ctx, "http://"+page+"/metrics")
		if found := renewals.FindStringSubmatch(body); found != nil {
			if n, err := strconv.Atoi(found[1]); err != nil || n >= 200 {
				if told := failures.FindAllString(body, -1); told != nil {
					t.Errorf("%q", told)
				}
				return
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("it does not renew:\n%s", body)
		}
	}
}

// helped returns a kubeconfig file whose user has a token for one request only,
// and a program that gets the next one.
func helped(t *testing.T, srv *kubelab.Server, token string) (path string) {
	t.Helper()
	helper := filepath.Join(t.TempDir(), "helper")
	script := fmt.Sprintf(`#!/bin/sh
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"2020-01-01T00:00:00Z"}}'
`, token)
	if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	path = srv.Kubeconfig(t, srv.Anonymous(), "default")
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &api.AuthInfo{Exec: &api.ExecConfig{
			Command: helper, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode,
		}}
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
