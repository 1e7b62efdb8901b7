//go:build unix

package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"
)

// A container is what of it concerns the command. examples/manifests_test.go
// has the types of Kubernetes.
type container struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	StartupProbe   probe `json:"startupProbe"`
	LivenessProbe  probe `json:"livenessProbe"`
	ReadinessProbe probe `json:"readinessProbe"`
}

type probe struct {
	HTTPGet struct {
		Path string `json:"path"`
	} `json:"httpGet"`
}

// deployed returns the container of a manifest that runs a command of the
// program.
func deployed(t *testing.T, file, verb string) container {
	t.Helper()
	data, err := os.ReadFile(repository("deploy/" + file))
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n---\n") {
		var d struct {
			Spec struct {
				Template struct {
					Spec struct{ InitContainers, Containers []container }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(doc), &d); err != nil {
			t.Fatal(err)
		}
		pod := d.Spec.Template.Spec
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if len(c.Args) > 0 && c.Args[0] == verb {
				return c
			}
		}
	}
	t.Fatalf("%s does not run leader %s", file, verb)
	return container{}
}

// The page's token is a secret of the cluster.
func TestManifestsOfTheExporterAndThePageRunAsDeployed(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	for verb, needs := range map[string][]string{"exporter": {"NATS_URL"}, "dash": {"NATS_URL", "LEADER_DASH_TOKEN"}} {
		t.Run(verb, func(t *testing.T) {
			c := deployed(t, "kubernetes/"+verb+".yaml", verb)
			args := slices.Clone(c.Args)
			for i, arg := range args {
				if strings.HasPrefix(arg, "--http=:") {
					args[i] = "--http=:0" // as there: not on a loopback address alone
				}
			}
			var env, names []string
			for _, e := range c.Env {
				names = append(names, e.Name)
			}
			for _, name := range needs {
				if !slices.Contains(names, name) {
					t.Errorf("it is given %q, and not %s", names, name)
				}
				env = append(env, name+"="+map[string]string{"NATS_URL": l.url, "LEADER_DASH_TOKEN": "correct-horse-battery"}[name])
			}
			address, stop := startServing(t, env, args...)
			port := regexp.MustCompile(`:\d+/`).FindString(address)
			for _, p := range []probe{c.LivenessProbe, c.ReadinessProbe} {
				if p.HTTPGet.Path == "" {
					t.Error("it lacks a probe")
				}
				checkAnswer(t, "http://127.0.0.1"+strings.TrimSuffix(port, "/")+p.HTTPGet.Path)
			}
			if code := stop(); code != 0 {
				t.Errorf("exit status %d after an interrupt", code)
			}
		})
	}
}

func TestManifestsOfTheSidecarRunAsDeployed(t *testing.T) {
	t.Parallel()
	url := electionsToComplete(t)
	for _, file := range []string{"kubernetes/sidecar.yaml", "run.yaml"} {
		t.Run(file, func(t *testing.T) {
			c := deployed(t, file, "run")
			args := slices.Clone(c.Args)
			for i, arg := range args {
				switch {
				case strings.HasPrefix(arg, "--http=:"):
					args[i] = "--http=127.0.0.1:0"
				case arg == "reports":
					args[i] = "sidecar" // the other group of the name has a leader
				case arg == "/leader" || arg == "/backup.sh":
					args[i] = program // prints its help, and ends
				}
			}
			// So long that nobody leads within this test unless the lease was
			// released.
			args = slices.Insert(args, 2, "--ttl=10m")
			first := sidecar(t, url, "pod-1", args)
			base := first.leads()
			paths := []string{"/leader"}
			for _, p := range []probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if p.HTTPGet.Path != "" {
					paths = append(paths, p.HTTPGet.Path)
				}
			}
			if c.ReadinessProbe.HTTPGet.Path == "" {
				t.Error("it has no readiness probe")
			}
			for _, path := range paths {
				checkAnswer(t, base+path)
			}
			second := sidecar(t, url, "pod-2", args)
			if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			first.ends()
			second.leads()
			if err := second.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			second.ends()
		})
	}
}

// A pod is one copy of a sidecar.
type pod struct {
	*testing.T

	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  []string
}

func sidecar(t *testing.T, url, id string, args []string) *pod {
	t.Helper()
	cmd := command(t, []string{"NATS_URL=" + url, "LEADER_ID=" + id}, args...)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &pod{T: t, cmd: cmd, lines: bufio.NewScanner(stderr)}
}

// next reads another line of its output, and reports whether there was one.
func (p *pod) next() bool {
	if !p.lines.Scan() {
		return false
	}
	p.said = append(p.said, p.lines.Text())
	return true
}

// leads waits until it does, and returns where it serves.
func (p *pod) leads() (base string) {
	p.Helper()
	for leads := false; base == "" || !leads; {
		if !p.next() {
			p.Fatalf("it ended before it led:\n%s", strings.Join(p.said, "\n"))
		}
		if _, at, ok := strings.Cut(p.lines.Text(), "leader: http://"); ok {
			base = "http://" + strings.TrimSuffix(at, "/leader")
		}
		leads = leads || strings.Contains(p.lines.Text(), "leading ")
	}
	return base
}

// ends waits until it has, in peace.
func (p *pod) ends() {
	p.Helper()
	for p.next() {
	}
	_ = p.cmd.Wait() // see its ProcessState
	// The program's, which may have ended by itself just then. A process that
	// the signal itself has ended has none.
	if status := p.cmd.ProcessState.ExitCode(); status != 128+int(syscall.SIGTERM) && status != 0 {
		p.Errorf("after SIGTERM: %v\n%s", p.cmd.ProcessState, strings.Join(p.said, "\n"))
	}
}

func checkAnswer(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", url, res.Status)
	}
}

func TestManifestOfTheProxyRunsAsDeployed(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	web := newService(t, "web")
	l.campaign("web", "a", web.ln.Addr().String())
	c := deployed(t, "kubernetes/proxy.yaml", "proxy")
	args := slices.Clone(c.Args[1:])
	for i, arg := range args {
		if name, _, ok := strings.Cut(arg, "=:"); ok {
			args[i] = name + "=127.0.0.1:0"
		}
	}
	running := l.carry([]string{"web", "metrics"}, args...)
	running.connect("web", "web")
	for _, p := range []probe{c.ReadinessProbe, c.LivenessProbe} {
		address := running.addresses["metrics"]
		if !strings.HasPrefix(address, "http://") {
			address = "http://" + address
		}
		checkAnswer(t, strings.TrimSuffix(address, "/metrics")+p.HTTPGet.Path)
	}
	if code := running.end(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestImageIsBuiltByTheGoThatTheModuleAsksFor(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(dockerfile), "FROM golang:")
	image, _, _ := strings.Cut(rest, " ")
	if !strings.Contains(string(mod), "\ngo "+image+".") {
		t.Errorf("the image golang:%s builds a module with %q", image, string(mod[:120]))
	}
}

// The unit starts a command line that the parser knows, and systemd takes the
// whole of it without a remark, where systemd is installed.
func TestTheUnitOfSystemdIsValid(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(repository("deploy/systemd/leader-run.service"))
	if err != nil {
		t.Fatal(err)
	}
	const installed = "/usr/local/bin/leader"
	started := regexp.MustCompile(`(?m)^ExecStart=` + installed + ` (.*)$`).FindSubmatch(data)
	if started == nil {
		t.Fatalf("the unit does not start %s", installed)
	}
	words := strings.Fields(string(started[1]))
	if wrong := wrongCall(model(t).Node, words); wrong != "" || words[0] != "run" {
		t.Errorf("leader %s: %s", started[1], wrong)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// It looks for the files that the unit names.
	unit := filepath.Join(t.TempDir(), "leader-run.service")
	text := strings.NewReplacer(installed, program, "EnvironmentFile=", "EnvironmentFile=-").Replace(string(data))
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
