package examples

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seed-ff2cb582/leader/examples/internal/lab"
	"github.com/seed-ff2cb582/leader/probe"
)

const image = "leader-examples:dev"

// ours returns the containers that run an example, by the name of the program:
// as deploy/kubernetes has them, and as deploy/label has them after it.
func ours(t *testing.T) iter.Seq2[string, corev1.Container] {
	t.Helper()
	return func(yield func(string, corev1.Container) bool) {
		for _, base := range []string{manifests, labelled} {
			found := make(map[string]corev1.Container)
			for _, p := range deployed(t)[base].pods() {
				for _, c := range p.containers() {
					if c.Image == image {
						found[strings.TrimPrefix(c.Command[0], "/")] = c
					}
				}
			}
			if len(found) != 1 {
				t.Fatalf("%s runs %d examples, want web", base, len(found))
			}
			for program, c := range found {
				if !yield(program, c) {
					return
				}
			}
		}
	}
}

func TestManifestsSetTheVariablesThatTheProgramsRead(t *testing.T) {
	for program, c := range ours(t) {
		known := append(variables(t, program), variables(t, "internal/app")...)
		for _, env := range c.Env {
			if !slices.Contains(known, env.Name) {
				t.Errorf("%s is given %s, and reads %q", program, env.Name, known)
			}
		}
		for _, name := range []string{"NATS_URL", "POD_NAME", "LISTEN"} {
			if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name }) {
				t.Errorf("%s is not given %s", program, name)
			}
		}
	}
}

// variables returns the environment variables that the code in a directory
// reads.
func variables(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 && readsVariable(call.Fun) {
				if lit, ok := call.Args[0].(*ast.BasicLit); ok {
					name, _ := strconv.Unquote(lit.Value)
					names = append(names, name)
				}
			}
			return true
		})
	}
	return names
}

func readsVariable(fun ast.Expr) bool {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name == "Env"
	case *ast.SelectorExpr:
		return f.Sel.Name == "Env" || f.Sel.Name == "Getenv"
	default:
		return false
	}
}

// TestTheProgramsRunAsTheManifestsRunThem starts each program with the
// environment of its container, and asks it what Kubernetes asks it.
func TestTheProgramsRunAsTheManifestsRunThem(t *testing.T) {
	url := lab.Server(t)
	for program, c := range ours(t) {
		address := lab.FreeAddress(t)
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		env := environment(c, map[string]string{
			"POD_NAME": program + "-0", "POD_UID": "4f1e5d1c-8a52-4a0e-9d5c-1b8e1d6f2a3b", "POD_IP": host, "NATS_URL": url, "LISTEN": ":" + port,
		})
		// An API server that is not there keeps nobody from leading.
		p := lab.NewCrew(t, lab.BuildIn(t, program)).StartBare(append(env, "KUBECONFIG="+nowhere(t)))
		for kind, probe := range probes(c) {
			get(t, "http://"+address+probe.HTTPGet.Path, http.StatusOK)
			if time.Duration(probe.TimeoutSeconds)*time.Second <= window && kind == "liveness" {
				t.Errorf("%s: the liveness probe gives up before /livez does", program)
			}
		}
		header := get(t, "http://"+address+"/leader", http.StatusOK)
		if got := header.Get(probe.AddressHeader); program == "web" && got != address {
			t.Errorf("the leader announces %q, want its POD_IP and port: %q", got, address)
		}
		p.Kill()
	}
}

// nowhere is a kubeconfig by which nobody is reached.
func nowhere(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(file, []byte(`{clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}], current-context: x,
contexts: [{name: x, context: {cluster: x, namespace: leader}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

const window = probe.DefaultWindow

// environment is the environment of a container, with some values replaced.
func environment(c corev1.Container, values map[string]string) (env []string) {
	for _, e := range c.Env {
		value, ok := values[e.Name]
		if !ok {
			value = e.Value
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

// get repeats a request until the answer has that status.
func get(t *testing.T, url string, want int) http.Header {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lab.Patience)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	last := "no answer"
	for ; ctx.Err() == nil; <-pause.C {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if last = resp.Status; resp.StatusCode == want {
			return resp.Header
		}
	}
	t.Fatalf("%s: %s, want %d", url, last, want)
	return nil
}

func TestListenIsThePortOfTheContainer(t *testing.T) {
	for program, c := range ours(t) {
		for _, e := range c.Env {
			if want := fmt.Sprintf(":%d", c.Ports[0].ContainerPort); e.Name == "LISTEN" && e.Value != want {
				t.Errorf("%s listens on %s, and its port is %s", program, e.Value, want)
			}
		}
	}
}

func TestPodsHaveTimeToLeaveInOrder(t *testing.T) {
	for base, d := range deployed(t) {
		for name, o := range d.deployments {
			checkLeave(t, base+", deployment "+name, o.Spec.Template.Spec)
		}
	}
}

func checkLeave(t *testing.T, what string, spec corev1.PodSpec) {
	t.Helper()
	// DemoteTimeout and the end of the last requests in web; the release of the
	// sidecar, after its program; --stop-timeout and the release of run.yaml.
	// The operator, which takes longer, has a separate test.
	const leaving = 10 * time.Second
	if spec.TerminationGracePeriodSeconds == nil {
		t.Errorf("%s does not set how long its pods may take to leave", what)
		return
	}
	grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
	for _, c := range spec.Containers {
		if c.Lifecycle != nil {
			grace -= time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		}
	}
	if grace <= leaving {
		t.Errorf("%s: %v are left to leave, and it may take %v", what, grace, leaving)
	}
	for _, c := range spec.InitContainers {
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s: %s is not a sidecar, and would release before the program has ended", what, c.Name)
		}
	}
}

func TestTheProgramBesideTheSidecarIsAScript(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	for _, base := range []string{manifests, "../deploy/leases"} {
		pod := deployed(t)[base].deployments["reports"].Spec.Template.Spec
		script := pod.Containers[0].Args[0]
		out, err := exec.CommandContext(t.Context(), sh, "-n", "-c", script).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", base, err, out)
		}
		listens := pod.InitContainers[0].Ports[0].ContainerPort
		if want := fmt.Sprintf("http://localhost:%d/leader", listens); !strings.Contains(script, want) {
			t.Errorf("%s: the script does not ask %s", base, want)
		}
	}
}

// ownImages are those that the repository has a Dockerfile for, and where.
var ownImages = map[string]string{image: "examples", "leader:dev": "cmd/leader", "leader-operator:dev": "examples/operator"}

// TestTheImagesOfTheManifestsAreBuiltByOurDockerfiles reads them: no registry
// has these images, and to build one takes a container engine.
func TestTheImagesOfTheManifestsAreBuiltByOurDockerfiles(t *testing.T) {
	used := map[string]bool{}
	for base, d := range deployed(t) {
		for _, p := range d.pods() {
			for _, c := range p.containers() {
				used[c.Image] = true
				// run.yaml explains how its reader builds that one.
				if strings.HasSuffix(c.Image, ":dev") && ownImages[c.Image] == "" && c.Image != "backup:dev" {
					t.Errorf("%s: nobody knows how %s is built", base, c.Image)
				}
			}
		}
	}
	for name, dir := range ownImages {
		file := read(t, filepath.Join("..", dir, "Dockerfile"))
		command := fmt.Sprintf("docker build -t %s -f %s/Dockerfile .\n", name, dir)
		if from := fromLine.FindSubmatch(file); !used[name] || from == nil || !bytes.Contains(file, []byte(command)) {
			t.Errorf("%s: in the manifests %v; the Dockerfile has to contain %q, and begin with an image of Go", name, used[name], command)
		} else if mod := read(t, filepath.Join("..", dir, "go.mod")); !bytes.Contains(mod, append([]byte("\ngo "), from[1]...)) {
			t.Errorf("%s is built by Go %s, and its go.mod names another version: %.100s", name, from[1], mod)
		}
	}
}

var (
	buildLine = regexp.MustCompile(`CGO_ENABLED=0 go build \S+ \S+ -o /out/ (\./examples/.*)`)
	fromLine  = regexp.MustCompile(`(?m)^FROM golang:(\S+) AS build$`)
)

// TestTheImageHasAllPrograms reads the Dockerfile, which promises them all and
// lists them by name. That the programs build without cgo is part of make
// check.
func TestTheImageHasAllPrograms(t *testing.T) {
	file := read(t, "Dockerfile")
	build := buildLine.FindSubmatch(file)
	if build == nil {
		t.Fatal("the Dockerfile has no build as this test knows it")
	}
	packages := slices.Sorted(strings.FieldsSeq(string(build[1])))
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./...")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the programs of the module: %v\n%s", err, out)
	}
	var programs []string
	for path := range strings.FieldsSeq(string(out)) {
		programs = append(programs, strings.Replace(path, "github.com/seed-ff2cb582/leader", ".", 1))
	}
	slices.Sort(programs)
	if !slices.Equal(packages, programs) {
		t.Errorf("the image has %v, and the module %v", packages, programs)
	}
	for program := range ours(t) {
		if !slices.Contains(packages, "./examples/"+program) {
			t.Errorf("a manifest runs %s, which the image does not have", program)
		}
	}
}
