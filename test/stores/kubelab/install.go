package kubelab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Version is the version of Kubernetes in the tests, which apiserver/go.mod
// pins.
const Version = "v1.36.3"

// errAbsent: the cache does not have kube-apiserver.
var errAbsent = errors.New("kube-apiserver is not built: run `make kube` (six minutes of one processor, once)")

// cached is where Install puts the program.
func cached() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "leader-kube", runtime.GOOS+"-"+runtime.GOARCH+"-"+Version, "kube-apiserver"), nil
}

// Find returns the program's path, or an error that says how to get it.
func Find() (string, error) {
	path, err := cached()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", errAbsent
	}
	return path, nil
}

// Install builds kube-apiserver from its module into the user's cache, if it is
// not there, and tells w what it does. The go command fetches the modules, and
// checks them against apiserver/go.sum.
func Install(ctx context.Context, w io.Writer) error {
	path, err := cached()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		fmt.Fprintf(w, "kubelab: kube-apiserver %s is there: %s\n", Version, path)
		return nil
	}
	module, err := output(ctx, ".", "list", "-f", "{{.Dir}}", "github.com/seed-ff2cb582/leader/test/stores/kubelab")
	if err != nil {
		return err
	}
	module = filepath.Join(module, "apiserver")
	have, err := output(ctx, module, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	if have != Version {
		return fmt.Errorf("apiserver/go.mod has k8s.io/kubernetes %s, and Version is %s", have, Version)
	}
	fmt.Fprintf(w, "kubelab: kube-apiserver %s is absent, and is about to be built into %s (six minutes of one processor, once)\n", Version, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	unfinished := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(unfinished) //nolint:errcheck // it has been renamed
	_, err = output(ctx, module, "build", "-trimpath", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+Version,
		"-o", unfinished, "k8s.io/kubernetes/cmd/kube-apiserver")
	if err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	fmt.Fprintf(w, "kubelab: kube-apiserver is there: %s\n", path)
	return nil
}

// output runs the go command, in a module that is not part of the workspace
// unless dir is ".".
func output(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if dir != "." {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("go %v: %w\n%s", args, err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
