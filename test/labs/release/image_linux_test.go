package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// loaded reads an image as a runtime does: from the index to the manifest, the
// configuration and the layer, each by its digest. Then it runs the image in a
// separate root, as the user that the image names.
func loaded(t *testing.T, name, of string) {
	dir := t.TempDir()
	unpack(t, name, dir)
	var index struct{ Manifests []descriptor }
	read(t, filepath.Join(dir, "index.json"), &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(t, blob(dir, index.Manifests[0]), &manifest)
	var config struct {
		Config struct {
			User            string
			Entrypoint, Env []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	read(t, blob(dir, manifest.Config), &config)
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 || config.Config.User != "65532:65532" {
		t.Fatalf("%+v, %+v", manifest, config)
	}
	var forDocker []struct {
		Config string
		Layers []string
	}
	read(t, filepath.Join(dir, "manifest.json"), &forDocker)
	if filepath.Join(dir, forDocker[0].Config) != blob(dir, manifest.Config) || filepath.Join(dir, forDocker[0].Layers[0]) != blob(dir, manifest.Layers[0]) {
		t.Errorf("docker load would see %+v", forDocker)
	}
	root := t.TempDir()
	unpack(t, blob(dir, manifest.Layers[0]), root)
	start(t, of, root, config.Config.Entrypoint[0], config.Config.Env)
}

func read(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func blob(dir string, d descriptor) string {
	return filepath.Join(dir, filepath.FromSlash(blobFile(d)))
}

// start runs the program with nothing but the image around it: as root by
// chroot, else in a user namespace, where the kernel allows one.
func start(t *testing.T, of, root, program string, env []string) {
	if err := os.Chmod(root, 0o755); err != nil { // another user has to enter it
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nonroot, Gid: nonroot}}
	if os.Geteuid() != 0 {
		attr = &syscall.SysProcAttr{
			Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: nonroot, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: nonroot, HostID: os.Getgid(), Size: 1}},
		}
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", env, attr
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("version", "-o", "name")
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("neither root nor user namespaces here: %v", err)
	}
	if err != nil || strings.TrimSpace(out) != of {
		t.Fatalf("%v\n%s", err, out)
	}
	// It needs a directory to write to, sockets and random numbers.
	if out, err := run("ls", "--dev"); err != nil || !strings.Contains(out, "reports") {
		t.Errorf("leader ls --dev: %v\n%s", err, out)
	}
}

// contained has a container runtime run the image, where the machine has one:
// umoci and runc know nothing of how it was made.
func contained(t *testing.T, name, of string) {
	for _, program := range []string{"umoci", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, NOT RUN IN A CONTAINER: %v", err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT RUN IN A CONTAINER: not root")
	}
	layout, bundle := t.TempDir(), filepath.Join(t.TempDir(), "bundle")
	unpack(t, name, layout)
	if out, err := exec.CommandContext(t.Context(), "umoci", "unpack", "--image", layout+":"+of, bundle).CombinedOutput(); err != nil {
		t.Fatalf("umoci: %v\n%s", err, out)
	}
	var config map[string]any
	read(t, filepath.Join(bundle, "config.json"), &config)
	process, isObject := config["process"].(map[string]any)
	if !isObject {
		t.Fatalf("umoci made %v", config)
	}
	entry, isList := process["args"].([]any)
	if !isList || len(entry) != 2 {
		t.Fatalf("umoci made %v", process)
	}
	// As the manifests in deploy have it.
	process["terminal"], process["noNewPrivileges"], process["capabilities"] = false, true, map[string]any{}
	config["root"] = map[string]any{"path": "rootfs", "readonly": true}
	mounts, _ := config["mounts"].([]any)
	config["mounts"] = append(mounts, map[string]any{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=1777"}})
	for want, args := range map[string][]any{of: {"version", "-o", "name"}, "reports": {"ls", "--dev"}} {
		process["args"] = append(entry[:1:1], args...)
		data, err := json.Marshal(config)
		if err == nil {
			err = os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "runc", "--root", t.TempDir(), "run", "--bundle", bundle, fmt.Sprintf("leader-%d", os.Getpid())).CombinedOutput()
		if err != nil && strings.Contains(string(out), "runc run failed") && strings.Contains(string(out), "operation not permitted") {
			t.Skipf("SKIPPED, NOT RUN IN A CONTAINER: %s", out) // within another container
		}
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("leader %v: %v\n%s", args, err, out)
		}
	}
}
