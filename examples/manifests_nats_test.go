package examples

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	corev1 "k8s.io/api/core/v1"
)

func TestTheServersOfTheManifestFormOneClusterOnDisks(t *testing.T) {
	d := load(t)
	set := d.statefulSets["nats"]
	opts := natsConfig(t, d)
	if opts.ServerName != "nats-1" || !opts.JetStream || !opts.SyncAlways {
		t.Errorf("name %q, JetStream %v, sync always %v", opts.ServerName, opts.JetStream, opts.SyncAlways)
	}
	var routes []string
	for i := range *set.Spec.Replicas {
		routes = append(routes, fmt.Sprintf("nats://%s-%d.%s:%d", set.Name, i, set.Spec.ServiceName, opts.Cluster.Port))
	}
	if got := join(opts.Routes); got != strings.Join(routes, " ") {
		t.Errorf("routes %s, want %s", got, strings.Join(routes, " "))
	}
	p := pods{"nats", 3, set.Spec.Selector, set.Spec.Template}
	for name, want := range map[string]int{"client": opts.Port, "cluster": opts.Cluster.Port, "monitor": opts.HTTPPort} {
		if got, _ := p.port(name); int(got) != want {
			t.Errorf("port %s is %d, and the server listens on %d", name, got, want)
		}
	}
	c := set.Spec.Template.Spec.Containers[0]
	for what, path := range map[string]string{"the streams": opts.StoreDir, "the PID": filepath.Dir(opts.PidFile)} {
		if !mounted(c, path) {
			t.Errorf("nothing is mounted at %s, where %s are", path, what)
		}
	}
	if want := "ldm=" + opts.PidFile; c.Lifecycle.PreStop.Exec.Command[2] != want {
		t.Errorf("preStop %q, want %q", c.Lifecycle.PreStop.Exec.Command, want)
	}
	grace := time.Duration(*set.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if opts.LameDuckDuration+opts.LameDuckGracePeriod >= grace {
		t.Errorf("the server takes %v to say good-bye and is killed after %v", opts.LameDuckDuration, grace)
	}
}

func mounted(c corev1.Container, path string) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			return true
		}
	}
	return false
}

// natsConfig has the server itself read its configuration.
func natsConfig(t *testing.T, d *deployment) *server.Options {
	t.Helper()
	t.Setenv("POD_NAME", "nats-1")
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(d.configs["nats"].Data["nats.conf"]), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

func join(urls []*url.URL) string {
	var all []string
	for _, u := range urls {
		all = append(all, u.String())
	}
	return strings.Join(all, " ")
}
