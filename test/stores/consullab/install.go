package consullab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Version is Consul's version in the tests, and client that of its API, without
// which its module does not compile.
const (
	Version = "v1.22.7"
	client  = "v1.34.4"
)

const module = "github.com/hashicorp/consul"

// errAbsent: the cache does not have Consul.
var errAbsent = errors.New("Consul is not installed: run `make consul`, which takes some 7 minutes of a processor, once") //nolint:staticcheck // its name

// program returns the path where Install puts Consul.
func program() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "leader-consul", runtime.GOOS+"-"+runtime.GOARCH+"-"+Version, "consul"), nil
}

// find returns the program's path, if it is there.
func find() (string, error) {
	path, err := program()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", errAbsent
	}
	return path, nil
}

// Look tells w whether Consul is there.
func Look(w io.Writer) error {
	path, err := find()
	if err != nil {
		return fmt.Errorf("SKIPPED, NOT TESTED: %w", err)
	}
	fmt.Fprintf(w, "consullab: Consul %s is there: %s\n", Version, path)
	return nil
}

// Install builds Consul from its module into the user's cache, if it is not
// there, and tells w what it does. The go command fetches the modules and
// checks their sums; nothing of them gets into a go.mod of this repository.
func Install(ctx context.Context, w io.Writer) error {
	path, err := program()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		fmt.Fprintf(w, "consullab: Consul %s is there: %s\n", Version, path)
		return nil
	}
	fmt.Fprintf(w, "consullab: Consul %s is absent, and is about to be built into %s (some 7 minutes of a processor, once)\n", Version, path)
	home := filepath.Dir(filepath.Dir(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	tmp, err := os.MkdirTemp(home, "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	if err := build(ctx, tmp); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, "consul"), path); err != nil {
		return err
	}
	fmt.Fprintf(w, "consullab: Consul is there: %s\n", path)
	return nil
}

// build builds dir/consul, in a module of its own: go install refuses a module
// that replaces others.
func build(ctx context.Context, dir string) error {
	for _, args := range [][]string{
		{"mod", "init", "servers"},
		{"get", module + "@" + Version, module + "/api@" + client},
		{"build", "-o", "consul", module},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return nil
}
