//go:build linux

package run_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestProgramsOnAClusterOfThreeMoveWithTheirHosts(t *testing.T) {
	cluster := natslab.StartCluster(t, 3)
	a := newArenaOn(t, []kind{plain, stubborn, forking}, func(int) string { return cluster.URL() })
	term, r := a.awaitTerm(0)

	a.hosts[r.id].signal(syscall.SIGTERM)
	if r.kind == stubborn {
		a.hosts[r.id].kill()
	}
	a.hosts[r.id].awaitEnd()
	_, r = a.awaitTerm(term)

	// Without the server that leads the stream, nothing can be renewed for a
	// while.
	node := cluster.StreamLeader("KV_leaders")
	node.Stop()
	before := r.signs
	a.await("signs of life without a server", func() bool {
		_, now := a.latest()
		return now.signs >= enough && (now != r || now.signs >= before+enough)
	})
	node.Run()
	term, r = a.latest()
	a.hosts[r.id].kill()
	a.awaitTerm(term)
	a.finish(nil)
}

func TestAWrongPasswordIsRefusedAtOnce(t *testing.T) {
	srv := natslab.Start(t, natslab.Users(&server.User{Username: "leader", Password: "right"}))
	cmd := exec.Command(program, "run", "jobs", "--server", srv.URL(), "--user", "leader", "--", "true")
	cmd.Env = append(os.Environ(), "NATS_PASSWORD=wrong")
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer ended.Stop()
	_ = cmd.Wait() // the status tells
	if code := cmd.ProcessState.ExitCode(); code != 5 || !strings.Contains(strings.ToLower(said.tail()), "authorization") {
		t.Errorf("exit status %d: %s", code, said.tail())
	}
}
