package etcdlab

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

// Version is etcd's version in the tests.
const Version = "v3.7.3"

// errAbsent: the cache does not have etcd.
var errAbsent = errors.New("etcd is not installed: run `go run ./test/stores/etcdlab/install`")

// programs are what the tests need, and the packages that they are.
func programs() map[string]string {
	return map[string]string{"etcd": "go.etcd.io/etcd/server/v3", "etcdutl": "go.etcd.io/etcd/etcdutl/v3"}
}

// cacheDir is where Install puts the programs.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "leader-etcd", runtime.GOOS+"-"+runtime.GOARCH+"-"+Version), nil
}

// find returns a program's path.
func find(program string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w", program, errAbsent)
	}
	return path, nil
}

// Install builds etcd from its modules into the user's cache, if it is not
// there, and tells w what it does. The go command fetches the modules and
// checks their sums; nothing of them gets into a go.mod of this repository.
func Install(ctx context.Context, w io.Writer) error {
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(cache); err == nil {
		fmt.Fprintf(w, "etcdlab: etcd %s is there: %s\n", Version, cache)
		return nil
	}
	fmt.Fprintf(w, "etcdlab: etcd %s is absent, and is about to be built into %s (a minute or two, once)\n", Version, cache)
	if err := os.MkdirAll(filepath.Dir(cache), 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	tmp, err := os.MkdirTemp(filepath.Dir(cache), "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	if err := build(ctx, tmp); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, "bin"), cache); err != nil {
		if _, there := os.Stat(cache); there == nil {
			return nil // another run was faster
		}
		return err
	}
	fmt.Fprintf(w, "etcdlab: etcd is there: %s\n", cache)
	return nil
}

// build builds the programs into dir/bin, in a module of their own: go install
// refuses a module that replaces others.
func build(ctx context.Context, dir string) error {
	commands := [][]string{{"mod", "init", "servers"}, {"get"}}
	for program, pkg := range programs() {
		commands[1] = append(commands[1], pkg+"@"+Version)
		commands = append(commands, []string{"build", "-o", filepath.Join("bin", program), pkg})
	}
	for _, args := range commands {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return nil
}
