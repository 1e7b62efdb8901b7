//go:build unix

package main

import (
	"bufio"
	"net/http"
	"os"
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
	data, err := os.ReadFile("../../deploy/" + file)
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
			checkAnswer(t, "http://127.0.0.1"+strings.TrimSuffix(port, "/")+c.LivenessProbe.HTTPGet.Path)
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
			cmd := command(t, []string{"NATS_URL=" + url, "LEADER_ID=pod-1"}, args...)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stderr)
			base := ""
			for base == "" || !strings.Contains(lines.Text(), "leading ") {
				if !lines.Scan() {
					t.Fatal("it ended before it led")
				}
				if at, ok := strings.CutPrefix(lines.Text(), "leader: http://"); ok {
					base = "http://" + strings.TrimSuffix(at, "/leader")
				}
			}
			paths := []string{"/leader"}
			for _, p := range []probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if p.HTTPGet.Path != "" {
					paths = append(paths, p.HTTPGet.Path)
				}
			}
			for _, path := range paths {
				checkAnswer(t, base+path)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() {
			}
			_ = cmd.Wait() // by the signal, in whichever way
		})
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
