package objectlab

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

// errAbsent: the cache does not have the program.
var errAbsent = errors.New("it is not installed: run `make objects`, which takes some minutes, once")

// A program is a server and where it comes from. Each is built in a module of
// its own, since their requirements are many and have nothing to do with each
// other.
type program struct{ name, pkg, version string }

func programs() []program {
	return []program{
		{"versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"},
		{"fake-gcs-server", "github.com/fsouza/fake-gcs-server", "v1.56.1"},
	}
}

// path is where Install puts a program.
func (p program) path() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "leader-objects", runtime.GOOS+"-"+runtime.GOARCH, p.name+"-"+p.version), nil
}

// find returns a program's path.
func find(name string) (string, error) {
	for _, p := range programs() {
		if p.name != name {
			continue
		}
		path, err := p.path()
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", name, errAbsent)
		}
		return path, nil
	}
	return "", fmt.Errorf("%s: there is no such program", name)
}

// Look tells w whether the servers are there. The error says which is not.
func Look(w io.Writer) error {
	for _, p := range programs() {
		path, err := find(p.name)
		if err != nil {
			return fmt.Errorf("SKIPPED, NOT TESTED: %w", err)
		}
		fmt.Fprintf(w, "objectlab: %s %s is there: %s\n", p.name, p.version, path)
	}
	return nil
}

// Install builds the servers from their modules into the user's cache, where
// they are not there, and tells w what it does. The go command fetches the
// modules and checks their sums; nothing of them gets into a go.mod of this
// repository.
func Install(ctx context.Context, w io.Writer) error {
	for _, p := range programs() {
		if err := p.install(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (p program) install(ctx context.Context, w io.Writer) error {
	path, err := p.path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		fmt.Fprintf(w, "objectlab: %s %s is there: %s\n", p.name, p.version, path)
		return nil
	}
	fmt.Fprintf(w, "objectlab: %s %s is absent, and is about to be built into %s (two minutes, once)\n", p.name, p.version, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	tmp, err := os.MkdirTemp(filepath.Dir(path), "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	for _, args := range [][]string{{"mod", "init", "server"}, {"get", p.pkg + "@" + p.version}, {"build", "-o", "server", p.pkg}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = tmp, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	if err := os.Rename(filepath.Join(tmp, "server"), path); err != nil {
		return err
	}
	fmt.Fprintf(w, "objectlab: %s is there: %s\n", p.name, path)
	return nil
}
