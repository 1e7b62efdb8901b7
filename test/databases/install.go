package databases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errAbsent: neither the machine nor the cache has the server.
var errAbsent = errors.New("the server is not installed: run `make labs` or `go run ./test/databases/install`, " +
	"or install PostgreSQL, PgBouncer, MariaDB and Redis by the system's own means")

// programs are what the tests need, and the Debian packages that have them.
func programs() map[string]string {
	return map[string]string{
		"postgres": "postgresql", "mariadbd": "mariadb-server-core", "redis-server": "redis-server", "pgbouncer": "pgbouncer",
	}
}

// cacheDir is where Install puts what the machine lacks.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "leader-databases", runtime.GOOS+"-"+runtime.GOARCH), nil
}

// cached reports whether a program is of the cache: below which root, and where
// there.
func cached(bin string) (root, inside string, ok bool) {
	cache, err := cacheDir()
	if err != nil {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(bin, cache+string(filepath.Separator))
	if !ok {
		return "", "", false
	}
	name, inside, _ := strings.Cut(rest, string(filepath.Separator))
	return filepath.Join(cache, name), inside, true
}

// find returns a server's program: on the path, where systems keep it, or in
// the cache.
func find(program, packaged string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.EvalSymlinks(path) // its companions are beside the file and not beside the link
	}
	roots := []string{"/", "/usr/local", "/opt/homebrew/opt/" + packaged, "/opt/homebrew"}
	if cache, err := cacheDir(); err == nil {
		roots = append(roots, filepath.Join(cache, program))
	}
	for _, root := range roots {
		for _, pattern := range []string{"usr/lib/postgresql/*/bin", "usr/lib/galera", "usr/sbin", "usr/bin", "sbin", "bin"} {
			found, _ := filepath.Glob(filepath.Join(root, pattern, program)) // the patterns are constant
			if len(found) > 0 {
				return slices.MaxFunc(found, newer), nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w", program, errAbsent)
}

// newer compares /usr/lib/postgresql/9/bin and /usr/lib/postgresql/15/bin by
// their number.
func newer(a, b string) int {
	number := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for others
		return n
	}
	return cmp.Compare(number(a), number(b))
}

// Install puts the servers that the machine lacks into the user's cache, from
// the packages of a Debian (or a system that descends from it), and tells w
// what it does. It changes nothing else: packages are downloaded and unpacked,
// which needs no root, and not installed. Where that is not possible it says
// what to do, and returns no error.
func Install(ctx context.Context, w io.Writer) error {
	var failures []error
	for program, debian := range programs() {
		if bin, err := find(program, ""); err == nil {
			fmt.Fprintf(w, "databases: %s is there: %s\n", program, bin)
			continue
		}
		if _, err := exec.LookPath("apt-get"); err != nil {
			fmt.Fprintf(w, "databases: %s is absent, and there is no apt-get to fetch it: its tests will be skipped\n", program)
			continue
		}
		failures = append(failures, installDebian(ctx, w, program, debian))
	}
	return errors.Join(failures...)
}

func installDebian(ctx context.Context, w io.Writer, program, debian string) error {
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "databases: %s is absent: Debian's %s and what it needs are about to be downloaded, and unpacked into %s; nothing else is changed\n",
		program, debian, filepath.Join(cache, program))
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	tmp, err := os.MkdirTemp(cache, "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	a := &apt{ctx: ctx, dir: tmp}
	root := filepath.Join(tmp, "root")
	for n := 1; ; n++ {
		err := a.fetch(w, debian, root, n > 1)
		if err == nil {
			break
		}
		if n == attempts || ctx.Err() != nil {
			return fmt.Errorf("fetching %s, attempt %d of %d: %w", debian, n, attempts, err)
		}
		fmt.Fprintf(w, "databases: fetching %s, attempt %d of %d failed, next one in %v: %v\n", debian, n, attempts, pause, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	target := filepath.Join(cache, program)
	if err := os.Rename(root, target); err != nil {
		if _, there := os.Stat(target); there == nil {
			return nil // another run was faster
		}
		return err
	}
	bin, err := find(program, "")
	fmt.Fprintf(w, "databases: %s is there: %s\n", program, bin)
	return err
}

// How often a download is tried, and how long a mirror is left alone between:
// mirrors fail, and lists grow old.
const (
	attempts = 4
	pause    = 5 * time.Second
)

// An apt runs Debian's package tool without root.
type apt struct {
	ctx     context.Context //nolint:containedctx // it lives for one call
	dir     string
	options []string
}

// fetch downloads what the machine lacks for a package and unpacks it below
// root, by the machine's own lists of packages unless fresh ones are asked for.
func (a *apt) fetch(w io.Writer, debian, root string, fresh bool) error {
	packages, err := a.missing(debian, fresh)
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return fmt.Errorf("apt-get knows nothing to install for package %s", debian)
	}
	fmt.Fprintf(w, "databases: fetching %s\n", strings.Join(packages, " "))
	return a.unpack(packages, root)
}

func (a *apt) run(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(a.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

// missing returns the packages that the machine lacks for the one named.
func (a *apt) missing(debian string, fresh bool) ([]string, error) {
	if packages, err := a.simulate(debian); err == nil && !fresh {
		return packages, nil
	}
	// Fresh images have no lists of packages. They are fetched into a directory
	// of ours, for the machine's are root's.
	lists := filepath.Join(a.dir, "lists")
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return nil, err
	}
	a.options = []string{
		"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + a.dir, "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=",
		"-o", "Acquire::Retries=3",
	}
	if _, err := a.run(a.dir, "apt-get", append(slices.Clone(a.options), "update")...); err != nil {
		return nil, err
	}
	return a.simulate(debian)
}

func (a *apt) simulate(debian string) (packages []string, err error) {
	out, err := a.run(a.dir, "apt-get", append(slices.Clone(a.options), "-s", "--no-install-recommends", "install", debian)...)
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			packages = append(packages, fields[1])
		}
	}
	return packages, err
}

// unpack downloads packages and unpacks them below root.
func (a *apt) unpack(packages []string, root string) error {
	debs := filepath.Join(a.dir, "debs")
	if err := errors.Join(os.MkdirAll(debs, 0o755), os.MkdirAll(root, 0o755)); err != nil {
		return err
	}
	if _, err := a.run(debs, "apt-get", slices.Concat(a.options, []string{"download"}, packages)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := a.run(a.dir, "dpkg", "-x", file, root); err != nil {
			return err
		}
	}
	return nil
}
