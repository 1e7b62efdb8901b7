package manifests

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// announces runs leader announce with the arguments and the rights of
// deploy/announce, beside candidates that announce nothing.
func announces(t *testing.T, srv *kubelab.Server, c *cluster) {
	const namespace, account = "leader", "announce"
	config := srv.Account(namespace, account)
	p := programs{t, build(t, "cmd/leader"), natslab.Start(t).URL()}
	args, group, service := announcement(t, srv.Kubeconfig(t, config, namespace))
	a := p.start("promoted", "campaign", group, "--id", "a", "--ttl", "3s", "--grace", "off", "--address", "192.0.2.1:8080", "--json")
	first := p.start("announced a", args...)
	shows := func(want ...string) {
		t.Helper()
		natslab.Eventually(t, fmt.Sprintf("the Service leads to %v", want), func(ctx context.Context) error {
			got, err := kubelab.Endpoints(ctx, c.client, namespace, service, "http")
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("it leads to %v", got)
			}
			return err
		})
	}
	shows("192.0.2.1:8080")
	// It ends, and the slice stays, which another takes over.
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	shows("192.0.2.1:8080")
	p.start("metrics http", args...)
	b := p.start(`"event"`, "campaign", group, "--id", "b", "--ttl", "3s", "--grace", "off", "--address", "[2001:db8::2]:8080", "--json")
	for _, killed := range []struct {
		*exec.Cmd
		then []string
	}{{a, []string{"[2001:db8::2]:8080"}}, {b, nil}} { // a slice of another family is made again
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		shows(killed.then...)
	}

	own := newCluster(t, config)
	slice := func(name string) string {
		return "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices" + name
	}
	for what, err := range map[string]error{
		"list all slices":     own.do(http.MethodGet, slice(""), nil),
		"delete another":      own.do(http.MethodDelete, slice("/other"), nil),
		"read pods":           own.do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", nil),
		"read the Service":    own.do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/services/"+service, nil),
		"another namespace's": own.do(http.MethodGet, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/"+service+"-leader", nil),
	} {
		refused(t, what, err)
	}
}

// announcement is the command of deploy/announce, by way of a kubeconfig, and
// the group and the Service that it names.
func announcement(t *testing.T, kubeconfig string) (args []string, group, service string) {
	t.Helper()
	for _, o := range documents(t, deploy+"announce/announce.yaml") {
		if text(o, "kind") == "Service" {
			service = text(o, "metadata", "name")
		}
		containers, _ := at(o, "spec", "template", "spec", "containers").([]any)
		for _, container := range containers {
			all, _ := at(container, "args").([]any)
			for _, arg := range all {
				args = append(args, fmt.Sprint(arg))
			}
		}
	}
	if len(args) < 2 || args[0] != "announce" || service == "" {
		t.Fatalf("%v for the Service %q", args, service)
	}
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "--to="):
			args[i] = arg + "&kubeconfig=" + url.QueryEscape(kubeconfig)
		case strings.HasPrefix(arg, "--metrics=:"):
			args[i] = "--metrics=127.0.0.1:0"
		}
	}
	return args, args[1], service
}

// programs are runs of one command on one NATS server.
type programs struct {
	*testing.T

	program, server string
}

// build builds the command of a directory.
func build(t *testing.T, dir string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "program.exe") // a name that runs everywhere
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/seed-ff2cb582/leader/"+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// command returns a command that was not started yet, with these additional
// variables.
func (p programs) command(env []string, args ...string) *exec.Cmd {
	p.Helper()
	cmd := exec.Command(p.program, args...)
	cmd.Env = slices.Concat(env, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.TempDir(), "NATS_URL=" + p.server})
	cmd.Stderr = p.Output()
	return cmd
}

// begin starts a command that ends with the test at the latest.
func (p programs) begin(cmd *exec.Cmd) {
	p.Helper()
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
}

// start starts a command that runs until the test ends, and waits for the line.
func (p programs) start(line string, args ...string) *exec.Cmd {
	p.Helper()
	cmd := p.command(nil, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	p.begin(cmd)
	heard := make(chan bool, 1)
	go func() {
		lines, found := bufio.NewScanner(out), false
		for !found && lines.Scan() {
			found = strings.Contains(lines.Text(), line)
		}
		heard <- found
		_, _ = io.Copy(io.Discard, out) // so that it never waits for a reader
	}()
	select {
	case found := <-heard:
		if !found {
			p.Fatalf("leader %s ended without %q", strings.Join(args, " "), line)
		}
	case <-natslab.Within(p).Done():
		p.Fatalf("leader %s has not printed %q", strings.Join(args, " "), line)
	}
	return cmd
}
