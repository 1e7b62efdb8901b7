//go:build unix

package tethered

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A signal to all of the process group, as timeout and a terminal send it, must
// not end the tether before the server.
func TestServerDiesWithItsKeeperAfterASignalToAll(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", tether, "tether", "/bin/sh", "-c", `trap "" HUP INT TERM; echo ready; while :; do sleep 1; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var server int
	if _, err := fmt.Fscanln(stdout, &server); err != nil {
		t.Fatal(err)
	}
	var ready string
	if _, err := fmt.Fscanln(log, &ready); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(server, 0); err != nil {
		t.Fatalf("the server did not outlive the signal, so it shows nothing: %v", err)
	}
	_ = stdin.Close()                 // as the end of the keeper does
	defer func() { _ = cmd.Wait() }() // the shell's verdict on a server that was killed
	for deadline := time.Now().Add(time.Minute); !errors.Is(syscall.Kill(server, 0), syscall.ESRCH); {
		if time.Now().After(deadline) {
			_ = syscall.Kill(server, syscall.SIGKILL)
			t.Fatal("the server outlived its keeper")
		}
		<-time.After(5 * time.Millisecond)
	}
}
