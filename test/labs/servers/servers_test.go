package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// emptyCache gives the test a new cache, without servers. Then the servers
// whose version matters are absent on any machine.
func emptyCache(t *testing.T) (dir string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // macOS has the cache below it
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// put makes an empty file that may be executed.
func put(t *testing.T, path string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A verdict records how Need ends a test.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (v *verdict) Skipf(format string, args ...any)  { v.skipped = fmt.Sprintf(format, args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.failed = fmt.Sprintf(format, args...) }

func TestAbsentServerSkipsTheTestUnlessItIsRequired(t *testing.T) {
	emptyCache(t)
	const absent = "etcd is not here: make servers SLICE=etcd gets it (2 minutes of a processor)"
	for required, want := range map[string]verdict{
		"":               {skipped: "SKIPPED, NOT TESTED: " + absent},
		"consul redis":   {skipped: "SKIPPED, NOT TESTED: " + absent},
		"consul etcd":    {failed: `LEADER_SERVERS="consul etcd": ` + absent},
		"all":            {failed: `LEADER_SERVERS="all": ` + absent},
		"consul etcdutl": {failed: `LEADER_SERVERS="consul etcdutl": no server has the name "etcdutl": it has to be one of `},
	} {
		t.Run(required, func(t *testing.T) {
			t.Setenv("LEADER_SERVERS", required)
			v := verdict{TB: t}
			Need(&v, "etcd")
			if v.skipped != want.skipped || want.failed == "" && v.failed != "" || !strings.HasPrefix(v.failed, want.failed) {
				t.Errorf("skipped %q, failed %q", v.skipped, v.failed)
			}
		})
	}
}

func TestServerInTheCacheIsFoundWithItsLibraries(t *testing.T) {
	emptyCache(t)
	t.Setenv("LEADER_SERVERS", "all")
	i := slices.IndexFunc(table, func(s server) bool { return s.name == "postgresql18" })
	root, err := table[i].path()
	if err != nil {
		t.Fatal(err)
	}
	bin, lib := put(t, filepath.Join(root, "bin", "postgres")), filepath.Join(root, "usr", "lib", "x86_64-linux-gnu")
	put(t, filepath.Join(lib, "libpq.so"))
	if got := Need(t, "postgresql18"); got != bin {
		t.Errorf("found %s", got)
	}
	if got := Root(bin); got != root {
		t.Errorf("its root is %s", got)
	}
	if env, want := Env(root), "LD_LIBRARY_PATH="+lib+string(filepath.ListSeparator)+filepath.Join(lib, "libpq.so"); !slices.Equal(env, []string{want}) {
		t.Errorf("it needs %q", env)
	}
	if got := Env(Root("/usr/bin/postgres")); got != nil {
		t.Errorf("a program of the machine needs %q", got)
	}
}

// Debian's redis-server is a link to redis-check-rdb, which checks a file unless
// it is called redis-server. initdb, in turn, is beside postgres and may not be
// beside a link to it.
func TestLinkIsFollowedToTheSameNameAlone(t *testing.T) {
	emptyCache(t)
	dir, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("PATH", dir)
	for link, file := range map[string]string{"redis-server": "redis-check-rdb", "postgres": "postgres"} {
		if err := os.Symlink(put(t, filepath.Join(elsewhere, file)), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"redis": filepath.Join(dir, "redis-server"), "postgresql": filepath.Join(elsewhere, "postgres")} {
		if got, err := Find(name); got != want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// lab is a server that get gets.
func lab(get getter) *server {
	return &server{name: "lab", source: "made by a test", cost: "no time", at: "leader-lab/v1", program: "lab", get: get}
}

// left are the files below a cache.
func left(t *testing.T, cache string) (all []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(cache, "leader-lab", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestGetterIsAnnouncedAndItsFailureLeavesNothing(t *testing.T) {
	cache := emptyCache(t)
	interrupted := errors.New("interrupted")
	var said strings.Builder
	err := lab(func(_ context.Context, _ io.Writer, dir string) error {
		if want := filepath.Join(cache, "leader-lab", "v1") + ": made by a test, no time, once\n"; !strings.HasSuffix(said.String(), want) {
			t.Errorf("printed before: %q", said.String())
		}
		put(t, filepath.Join(dir, "made", "lab"))
		return interrupted
	}).install(t.Context(), &said)
	if !errors.Is(err, interrupted) {
		t.Errorf("%v", err)
	}
	if all := left(t, cache); len(all) > 0 {
		t.Errorf("left behind: %v", all)
	}
}

func TestGetterThatMakesNoProgramFails(t *testing.T) {
	cache := emptyCache(t)
	err := lab(func(_ context.Context, _ io.Writer, dir string) error {
		put(t, filepath.Join(dir, "lab"))
		return nil
	}).install(t.Context(), io.Discard)
	if err == nil {
		t.Error("it is reported as present")
	}
	if all := left(t, cache); len(all) > 0 {
		t.Errorf("left behind: %v", all)
	}
}

func TestTwoInstallersAtOnceBothSucceed(t *testing.T) {
	cache := emptyCache(t)
	var both, ended sync.WaitGroup
	both.Add(2)
	for range 2 {
		ended.Go(func() {
			err := lab(func(_ context.Context, _ io.Writer, dir string) error {
				both.Done()
				both.Wait() // until the other one has not found it either
				put(t, filepath.Join(dir, "made", "lab"))
				return nil
			}).install(t.Context(), io.Discard)
			if err != nil {
				t.Error(err)
			}
		})
	}
	ended.Wait()
	if all := left(t, cache); len(all) != 1 {
		t.Errorf("left behind: %v", all)
	}
}

func TestKubernetesIsOfTheVersionOfItsModule(t *testing.T) {
	if !strings.Contains(string(kubernetesMod), "\nrequire k8s.io/kubernetes "+kubernetesVersion+"\n") {
		t.Errorf("kubernetes.mod does not require %s", kubernetesVersion)
	}
}
