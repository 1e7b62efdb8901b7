package devserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A kind is one of server that the machine may have. Each is started so that it
// keeps what it has acknowledged, where it can.
type kind struct {
	program string
	// prepare makes what the server needs in its directory, before it starts.
	prepare func(ctx context.Context, p *Process) error // nil: nothing
	args    func(p *Process) []string
	// url is that of the store there: PORT stands for the first port, DIR for
	// the server's directory.
	url string
	end syscall.Signal // ends it at once; 0: SIGKILL
	// on is the kind of the server that keeps the data of this one, and is
	// started before it. Empty: it keeps them by itself.
	on string
	// unprivileged: the server refuses to run as root.
	unprivileged bool
}

// kinds are those that [StartKind] starts, by the scheme of their stores' URLs.
func kinds() map[string]kind {
	postgres := kind{
		program: "postgres", prepare: initPostgreSQL, args: postgresqlArgs, unprivileged: true,
		url: "postgres://leader@127.0.0.1:PORT/postgres?sslmode=disable&create=true",
		end: syscall.SIGQUIT, // by which it gives its shared memory back
	}
	mariadb := kind{
		program: "mariadbd", prepare: initMariaDB, args: mariadbArgs, unprivileged: true,
		url: "mysql://root@127.0.0.1:PORT/leader?create=true",
	}
	return map[string]kind{
		"redis":    {program: "redis-server", args: redisArgs, url: "redis://127.0.0.1:PORT"},
		"etcd":     {program: "etcd", args: etcdArgs, url: "etcd://127.0.0.1:PORT"},
		"consul":   {program: "consul", args: consulArgs, url: "consul://127.0.0.1:PORT"},
		"postgres": postgres, "postgresql": postgres, "mysql": mariadb, "mariadb": mariadb,
		"k8s": {
			program: "kube-apiserver", on: "etcd", prepare: prepareKubernetes, args: kubernetesArgs,
			url: "k8s://default?kubeconfig=DIR/kubeconfig",
		},
		"s3": {
			program: "versitygw", prepare: makeData, args: versitygwArgs,
			url: "s3://leader:leader-dev@leader?region=us-east-1&create=true&endpoint=http://127.0.0.1:PORT",
		},
		"gs": {
			program: "fake-gcs-server", args: fakeGCSArgs,
			url: "gs://leader?project=dev&create=true&auth=none&endpoint=http://127.0.0.1:PORT",
		},
	}
}

// Kinds returns the schemes of the stores for which [StartKind] starts a
// server.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }

// find returns the path of a program: on the PATH, or where systems keep
// servers that nobody starts by hand.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	for _, places := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin",
		"/usr/local/pgsql/bin", "/usr/local/kubebuilder/bin", "/opt/homebrew/opt/postgresql@*/bin", "/opt/homebrew/bin",
	} {
		found, _ := filepath.Glob(filepath.Join(places, program)) // the patterns are constant
		if len(found) > 0 {
			return slices.MaxFunc(found, newer), nil
		}
	}
	return "", err
}

// newer compares /usr/lib/postgresql/9/bin/postgres and
// /usr/lib/postgresql/15/bin/postgres by their number.
func newer(a, b string) int {
	number := func(path string) int {
		name := filepath.Base(filepath.Dir(filepath.Dir(path)))
		// A name without a number counts as 0.
		n, _ := strconv.Atoi(strings.TrimLeftFunc(name, func(r rune) bool { return r < '0' || r > '9' }))
		return n
	}
	return cmp.Compare(number(a), number(b))
}

// home is the directory of the program's file, beside which is what belongs to
// it, and not beside a link. It is not what is started: Redis' program goes by
// the name that it is called by.
func (p *Process) home() string {
	file, err := filepath.EvalSymlinks(p.program)
	if err != nil {
		file = p.program
	}
	return filepath.Dir(file)
}

// data is the directory of the server's data, which some want to make
// themselves.
func (p *Process) data() string { return filepath.Join(p.work, "data") }

// port returns one of the server's ports as text.
func (p *Process) port(i int) string { return strconv.Itoa(p.ports[i]) }

// web is the URL of one of the server's ports.
func (p *Process) web(i int) string { return "http://127.0.0.1:" + p.port(i) }

// makeData makes the directory of the server's data.
func makeData(_ context.Context, p *Process) error { return p.mkdir(p.data()) }

func redisArgs(p *Process) []string {
	return []string{"--bind", "127.0.0.1", "--port", p.port(0), "--dir", p.work, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}
}

func etcdArgs(p *Process) []string {
	return []string{
		"--name", "dev", "--data-dir", p.data(), "--listen-client-urls", p.web(0), "--advertise-client-urls", p.web(0),
		"--listen-peer-urls", p.web(1), "--initial-advertise-peer-urls", p.web(1), "--initial-cluster", "dev=" + p.web(1),
	}
}

func consulArgs(p *Process) []string {
	return []string{
		"agent", "-server", "-bootstrap-expect", "1", "-node", "dev", "-data-dir", p.work, "-bind", "127.0.0.1", "-http-port", p.port(0),
		"-server-port", p.port(1), "-serf-lan-port", p.port(2), "-log-level", "ERROR",
		"-hcl", "ports { dns = -1, grpc = -1, grpc_tls = -1, serf_wan = -1 } connect { enabled = false } disable_update_check = true",
	}
}

// initPostgreSQL makes a database whose superuser is trusted, on this machine.
func initPostgreSQL(ctx context.Context, p *Process) error {
	initdb := filepath.Join(p.home(), "initdb")
	if _, err := os.Stat(initdb); err != nil {
		return fmt.Errorf("the program initdb has to be installed beside postgres: %w", err)
	}
	cmd := p.command(ctx, initdb, "-D", p.data(), "-U", "leader", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func postgresqlArgs(p *Process) []string {
	return []string{
		"-D", p.data(), "-c", "listen_addresses=127.0.0.1", "-c", "port=" + p.port(0), "-c", "unix_socket_directories=", "-c", "max_connections=200",
		"-c", "dynamic_shared_memory_type=mmap", // else it stays in /dev/shm where the server is killed
	}
}

// initMariaDB makes a database. There are no system tables, and so no users:
// everybody on this machine may do everything. To make them would take another
// program, and some seconds.
func initMariaDB(_ context.Context, p *Process) error {
	return errors.Join(p.mkdir(p.data()), p.mkdir(filepath.Join(p.data(), "leader")))
}

func mariadbArgs(p *Process) []string {
	return []string{
		"--no-defaults", "--basedir=" + filepath.Dir(p.home()), "--datadir=" + p.data(), "--tmpdir=" + p.work,
		"--bind-address=127.0.0.1", "--port=" + p.port(0), "--socket=sock", "--skip-grant-tables", "--skip-name-resolve",
		"--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--max-connections=200",
	}
}

func versitygwArgs(p *Process) []string {
	return []string{"--port", "127.0.0.1:" + p.port(0), "--access", "leader", "--secret", "leader-dev", "--region", "us-east-1", "--keep-alive", "--quiet", "posix", p.data()}
}

func fakeGCSArgs(p *Process) []string {
	return []string{
		"-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", p.port(0), "-public-host", "127.0.0.1:" + p.port(0),
		"-external-url", p.web(0), "-log-level", "error",
	}
}
