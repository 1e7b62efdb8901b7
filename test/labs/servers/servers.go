// Package servers finds the servers that the labs need, and gets those that the
// machine lacks: `go run ./test/labs/servers/install` puts them into the user's
// cache, without root, and changes nothing else.
//
// A test whose server is absent is skipped. It fails if LEADER_SERVERS, a list
// of names separated by spaces, contains the server's name or "all".
package servers

import (
	"cmp"
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
	"text/tabwriter"
)

// A server is a row of the table.
type server struct {
	name     string
	programs string // that it provides
	source   string
	cost     string // of getting it, once
	// at is its path below the user's cache: a file or a directory, which is
	// complete if it exists.
	at string
	// program is the pattern of the program's path below at; empty if at is the
	// program.
	program string
	// own are the names of the program under which the machine's own is
	// accepted. If the version matters, there are none.
	own []string
	get getter
}

const (
	platform = runtime.GOOS + "-" + runtime.GOARCH
	debs     = "leader-databases/" + platform + "/"
	objects  = "leader-objects/" + platform + "/"
)

var table = []server{
	{"postgresql", "postgres, initdb, pg_basebackup, psql", "Debian's postgresql", "20 s", debs + "postgres", "usr/lib/postgresql/*/bin/postgres", []string{"postgres"}, debian("postgresql")},
	{"postgresql18", "postgres, initdb", "npm's " + npmPackage, "20 s", debs + "postgresql-" + npmVersion, "bin/postgres", nil, npm},
	{"pgbouncer", "pgbouncer", "Debian's pgbouncer", "20 s", debs + "pgbouncer", "usr/sbin/pgbouncer", []string{"pgbouncer"}, debian("pgbouncer")},
	{"mariadb", "mariadbd", "Debian's mariadb-server-core", "20 s", debs + "mariadbd", "usr/sbin/mariadbd", []string{"mariadbd"}, debian("mariadb-server-core")},
	{"galera", "libgalera_smm.so", "Debian's galera-4", "20 s", debs + "libgalera_smm.so", "usr/lib/galera/libgalera_smm.so", []string{"libgalera_smm.so"}, debian("galera-4")},
	{"redis", "redis-server", "Debian's redis-server", "20 s", debs + "redis-server", "usr/bin/redis-server", []string{"redis-server"}, debian("redis-server")},
	{"etcd", "etcd, etcdutl", "built by go", "2 minutes of a processor", "leader-etcd/" + platform + "-" + etcdVersion, "etcd", nil, etcd},
	{"consul", "consul", "built by go", "7 minutes of a processor", "leader-consul/" + platform + "-" + consulVersion + "/consul", "", nil, consul},
	{"kubernetes", "kube-apiserver", "built by go", "6 minutes of a processor, 100 MB", "leader-kube/" + platform + "-" + kubernetesVersion + "/kube-apiserver", "", nil, kubernetes},
	{"s3", "versitygw", "built by go", "2 minutes of a processor", objects + "versitygw-" + s3Version, "", nil, s3},
	{"gcs", "fake-gcs-server", "built by go", "2 minutes of a processor", objects + "fake-gcs-server-" + gcsVersion, "", nil, gcs},
	{"ferretdb", "ferretdb", "built by go", "2 minutes of a processor", "leader-ferretdb/" + platform + "-" + ferretDBVersion + "/ferretdb", "", nil, ferretDB},
	{"chromium", "chromium", "Debian's chromium", "a minute", "leader-chromium/" + platform + "/chromium", "usr/lib/chromium/chromium", []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}, debian("chromium")},
}

// Table writes the table of servers to w.
func Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range table {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", table[i].name, table[i].programs, table[i].source, table[i].cost)
	}
	return t.Flush()
}

// named returns the servers of the names, and all servers without names.
func named(names []string) ([]server, error) {
	if len(names) == 0 {
		return table, nil
	}
	found := make([]server, 0, len(names))
	var known []string
	for i := range table {
		known = append(known, table[i].name)
	}
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("no server has the name %q: it has to be one of %s", name, strings.Join(known, " "))
		}
		found = append(found, table[i])
	}
	return found, nil
}

// Find returns the path of a server's program: the machine's own, or the one in
// the user's cache. If the server is absent, the error names the command that
// gets it.
func Find(name string) (string, error) {
	found, err := named([]string{name})
	if err != nil {
		return "", err
	}
	return found[0].find()
}

// Need returns the path of a server's program, as [Find] does. If the server is
// absent, Need skips the test, or fails it if LEADER_SERVERS requires the
// server.
func Need(tb testing.TB, name string) string {
	tb.Helper()
	required := os.Getenv("LEADER_SERVERS")
	listed := strings.Fields(required)
	all := slices.Contains(listed, "all")
	listed = slices.DeleteFunc(listed, func(l string) bool { return l == "all" })
	_, unknown := named(append(listed, name))
	path, absent := Find(name)
	switch {
	case unknown != nil:
		tb.Fatalf("LEADER_SERVERS=%q: %v", required, unknown)
	case absent == nil:
	case all || slices.Contains(listed, name):
		tb.Fatalf("LEADER_SERVERS=%q: %v", required, absent)
	default:
		tb.Skipf("SKIPPED, NOT TESTED: %v", absent)
	}
	return path
}

// places are the directories where systems keep servers, in addition to PATH.
var places = []string{
	"/usr/lib/postgresql/*/bin", "/usr/lib/galera", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
	"/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/opt/*/bin", "/opt/homebrew/bin",
}

func (s *server) find() (string, error) {
	var patterns []string
	for _, name := range s.own {
		if path, err := exec.LookPath(name); err == nil {
			return resolved(path), nil
		}
		for _, place := range places {
			patterns = append(patterns, filepath.Join(place, name))
		}
	}
	if at, err := s.path(); err == nil {
		patterns = append(patterns, filepath.Join(at, s.program))
	}
	for _, pattern := range patterns {
		// A link to a file that is gone matches, too.
		found, _ := filepath.Glob(pattern) // the patterns are constant but for the cache's path
		found = slices.DeleteFunc(found, func(path string) bool { _, err := os.Stat(path); return err != nil })
		if len(found) > 0 {
			return slices.MaxFunc(found, newer), nil
		}
	}
	return "", fmt.Errorf("%[1]s is not here: make servers SLICE=%[1]s gets it (%[2]s)", s.name, s.cost)
}

// resolved returns the file that a link leads to, since a server's companions
// are beside the file. A file of another name may be another program when it is
// called by that name: Debian's redis-server is a link to redis-check-rdb.
func resolved(path string) string {
	if file, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(file) == filepath.Base(path) {
		return file
	}
	return path
}

// newer compares /usr/lib/postgresql/9/bin/postgres and
// /usr/lib/postgresql/15/bin/postgres by their numbers.
func newer(a, b string) int {
	number := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for others
		return n
	}
	return cmp.Compare(number(a), number(b))
}

// path returns the absolute path of at.
func (s *server) path() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, filepath.FromSlash(s.at)), err
}

// Root returns the directory below which the installation of a program is: a
// directory of the user's cache, or "/" for a program of the machine.
func Root(program string) string {
	for i := range table {
		at, err := table[i].path()
		if err == nil && strings.HasPrefix(program, at+string(filepath.Separator)) {
			return at
		}
	}
	return "/"
}

// Env returns what the programs of an installation need in their environment:
// the directories of its shared libraries, unless root is "/".
func Env(root string) []string {
	if root == "/" {
		return nil
	}
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are constant
		dirs = append(dirs, found...)
	}
	if len(dirs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(dirs, string(filepath.ListSeparator))}
}
