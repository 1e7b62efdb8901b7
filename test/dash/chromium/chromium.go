// Package chromium starts a real Chromium for the project's tests, without
// root: the machine's own, or one that `go run ./install` (in the directory
// test/dash) has unpacked into the user's cache from the packages of a Debian.
package chromium

import (
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
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// errAbsent: neither the machine nor the cache has the browser.
var errAbsent = errors.New("no Chromium is installed: run `go run ./test/dash/install`, or install it by the system's own means")

// names are how systems call the program.
func names() []string {
	return []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
}

// root is where Install unpacks it.
func root() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "leader-chromium", runtime.GOOS+"-"+runtime.GOARCH, "chromium"), nil
}

// find returns the program, and where its libraries are if that is not where
// the system looks.
func find() (bin string, libraries []string, err error) {
	for _, name := range names() {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil, nil
		}
	}
	dir, err := root()
	if err != nil {
		return "", nil, err
	}
	bin = filepath.Join(dir, "usr", "lib", "chromium", "chromium")
	if _, err := os.Stat(bin); err != nil {
		return "", nil, errAbsent
	}
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/pulseaudio", "lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are constant
		libraries = append(libraries, found...)
	}
	return bin, libraries, nil
}

// Start starts a Chromium of its own for a test, with nothing in its profile,
// and ends it with the test. The context is chromedp's. Where there is none the
// test is skipped; with CI=true it is fetched, and the test fails if that is
// not possible.
func Start(tb testing.TB) context.Context {
	tb.Helper()
	bin, libraries, err := find()
	ci, _ := strconv.ParseBool(os.Getenv("CI")) // what is no boolean is not true
	if errors.Is(err, errAbsent) && ci {
		if err = Install(tb.Context(), tb.Output()); err == nil {
			bin, libraries, err = find()
		}
	}
	switch {
	case errors.Is(err, errAbsent) && !ci:
		tb.Skipf("SKIPPED, NOT TESTED: %v", err)
	case err != nil:
		tb.Fatal(err)
	}
	// The environment is set by the browser's own allocator; the test's is left
	// alone.
	env := []string{"HOME=" + tb.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:"}
	if len(libraries) > 0 {
		env = append(env, "LD_LIBRARY_PATH="+strings.Join(libraries, string(filepath.ListSeparator)))
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(bin), chromedp.UserDataDir(tb.TempDir()), chromedp.Env(env...), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true), chromedp.NoFirstRun,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("no-proxy-server", true),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...) //nolint:usetesting // it ends after the test's own context
	browser, closeBrowser := chromedp.NewContext(ctx, chromedp.WithErrorf(tb.Logf))
	tb.Cleanup(func() {
		closeBrowser()
		cancel()
	})
	if err := chromedp.Do(browser); err != nil {
		tb.Fatalf("%s: %v", bin, err)
	}
	return browser
}

// Install unpacks Chromium into the user's cache, if the machine has none and
// is a Debian or descends from one, and tells w what it does. Packages are
// downloaded and unpacked, which needs no root, and not installed.
func Install(ctx context.Context, w io.Writer) error {
	if bin, _, err := find(); err == nil {
		fmt.Fprintf(w, "chromium: it is there: %s\n", bin)
		return nil
	}
	target, err := root()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "chromium: it is absent: Debian's chromium and what it needs are about to be downloaded, and unpacked into %s; nothing else is changed\n", target)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	tmp, err := os.MkdirTemp(filepath.Dir(target), "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	a := &apt{dir: tmp}
	unpacked := filepath.Join(tmp, "root")
	for n := 1; ; n++ {
		err := a.fetch(ctx, w, unpacked, n > 1)
		if err == nil {
			break
		}
		if n == attempts || ctx.Err() != nil {
			return fmt.Errorf("fetching chromium, attempt %d of %d: %w", n, attempts, err)
		}
		fmt.Fprintf(w, "chromium: attempt %d of %d failed, next one in %v: %v\n", n, attempts, pause, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	if err := os.Rename(unpacked, target); err != nil {
		if _, _, there := find(); there == nil {
			return nil // another run was faster
		}
		return err
	}
	bin, _, err := find()
	fmt.Fprintf(w, "chromium: it is there: %s\n", bin)
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
	dir     string
	options []string
}

// fetch downloads what the machine lacks and unpacks it below root, by the
// machine's own lists of packages unless fresh ones are asked for.
func (a *apt) fetch(ctx context.Context, w io.Writer, root string, fresh bool) error {
	packages, err := a.missing(ctx, fresh)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "chromium: fetching %s\n", strings.Join(packages, " "))
	return a.unpack(ctx, packages, root)
}

func (a *apt) run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// missing returns the packages that the machine lacks.
func (a *apt) missing(ctx context.Context, fresh bool) ([]string, error) {
	if packages, err := a.simulate(ctx); err == nil && len(packages) > 0 && !fresh {
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
	if _, err := a.run(ctx, a.dir, "apt-get", append(slices.Clone(a.options), "update")...); err != nil {
		return nil, err
	}
	return a.simulate(ctx)
}

// simulate asks what would be installed.
func (a *apt) simulate(ctx context.Context) (packages []string, err error) {
	out, err := a.run(ctx, a.dir, "apt-get", append(slices.Clone(a.options), "-s", "--no-install-recommends", "install", "chromium")...)
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			packages = append(packages, fields[1])
		}
	}
	return packages, err
}

func (a *apt) unpack(ctx context.Context, packages []string, root string) error {
	debs := filepath.Join(a.dir, "debs")
	if err := errors.Join(os.MkdirAll(debs, 0o755), os.MkdirAll(root, 0o755)); err != nil {
		return err
	}
	if _, err := a.run(ctx, debs, "apt-get", slices.Concat(a.options, []string{"download"}, packages)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := a.run(ctx, a.dir, "dpkg", "-x", file, root); err != nil {
			return err
		}
	}
	return nil
}
