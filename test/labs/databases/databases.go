// Package databases starts real SQL servers for the project's tests, without
// containers and without root: PostgreSQL and MariaDB, each on a socket in a
// temporary directory, with its data there, and without syncing files.
//
// A test that kills its server, or needs acknowledged writes on the disk,
// starts a separate server ([Lab.OwnPostgreSQL], [Lab.OwnMariaDB]), which
// listens on the loopback interface and syncs.
//
// Package databases finds the servers, and skips or fails a test whose server
// is absent. LEADER_TEST_POSTGRESQL and LEADER_TEST_MYSQL hold data source
// names of servers that run already. LEADER_POSTGRESQL=18 selects postgresql18.
package databases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // for sql.Open
	_ "github.com/jackc/pgx/v5/stdlib" // for sql.Open
	_ "modernc.org/sqlite"             // for sql.Open

	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

// Patience bounds every wait. It is generous, since a passing test never waits
// that long.
const Patience = 3 * time.Minute

// A Lab starts a server when it is first asked for, and keeps it for the tests
// of a package. The zero Lab is ready.
type Lab struct {
	mu      sync.Mutex
	servers map[string]*server
	made    map[string]*server // by driver: the data of a server that never ran; see template
}

// Close ends the servers and removes their data.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failures []error
	for _, s := range l.servers {
		failures = append(failures, s.stop())
	}
	l.servers = nil
	for _, s := range l.made {
		failures = append(failures, os.RemoveAll(s.dir))
	}
	l.made = nil
	return errors.Join(failures...)
}

// PostgreSQL returns a connection pool to a PostgreSQL server, closed when the
// test ends.
func (l *Lab) PostgreSQL(tb testing.TB) *sql.DB {
	tb.Helper()
	return l.open(tb, "pgx", "LEADER_TEST_POSTGRESQL", postgreSQL, postgres)
}

// MySQL returns a connection pool to a MariaDB server (or to a MySQL one, by
// LEADER_TEST_MYSQL), closed when the test ends.
func (l *Lab) MySQL(tb testing.TB) *sql.DB {
	tb.Helper()
	return l.open(tb, "mysql", "LEADER_TEST_MYSQL", mariaDB, mariadb)
}

// SQLite returns a connection pool to a new database file, closed when the test
// ends.
func SQLite(tb testing.TB) *sql.DB {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "lab.db")
	// Transactions that find the write lock taken wait for it.
	return pool(tb, "sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
}

// postgreSQL returns the path of PostgreSQL's server, of the version that
// LEADER_POSTGRESQL names. If it names one, the test fails without it.
func postgreSQL(tb testing.TB) string {
	tb.Helper()
	switch version := os.Getenv("LEADER_POSTGRESQL"); version {
	case "":
		return servers.Need(tb, "postgresql")
	case "18":
		bin, err := servers.Find("postgresql18")
		if err != nil {
			tb.Fatalf("LEADER_POSTGRESQL=18: %v", err)
		}
		return bin
	default:
		tb.Fatalf("LEADER_POSTGRESQL=%s: it has to be 18 or empty", version)
		return ""
	}
}

func mariaDB(tb testing.TB) string {
	tb.Helper()
	return servers.Need(tb, "mariadb")
}

func (l *Lab) open(tb testing.TB, driver, env string, find func(testing.TB) string, prepare func(*server) ([]string, error)) *sql.DB {
	tb.Helper()
	if dsn := os.Getenv(env); dsn != "" {
		return pool(tb, driver, dsn)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers == nil {
		l.servers = make(map[string]*server)
	}
	s := l.servers[driver]
	if s == nil {
		var err error
		if s, err = start(driver, find(tb), prepare); err != nil {
			tb.Fatalf("databases: %v", err)
		}
		l.servers[driver] = s
	}
	return pool(tb, driver, s.dsn)
}

func pool(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func postgres(s *server) ([]string, error) {
	s.signal = "QUIT" // by which it takes its children with it
	s.dsn = fmt.Sprintf("host=%s user=lab dbname=postgres sslmode=disable", s.dir)
	data := filepath.Join(s.dir, "data")
	init := s.command(filepath.Join(filepath.Dir(s.bin), "initdb"), "-D", data, "-U", "lab", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return []string{
		"-D", data, "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off",
		"-c", "timezone=GMT", "-c", "log_timezone=GMT", "-c", "max_connections=100",
		"-c", "dynamic_shared_memory_type=mmap", // else a server that is killed leaves it behind in /dev/shm
	}, nil
}

func mariadb(s *server) ([]string, error) {
	socket, data := filepath.Join(s.dir, "sock"), filepath.Join(s.dir, "data")
	// Without grant tables there is no system database to make, and everyone
	// may do everything.
	s.signal = "KILL"
	s.dsn = fmt.Sprintf("root@unix(%s)/lab", socket)
	if err := s.mkdir(filepath.Join(data, "lab")); err != nil {
		return nil, err
	}
	return []string{
		"--no-defaults", "--datadir=" + data, "--socket=" + socket, "--skip-networking", "--skip-grant-tables", "--skip-log-bin",
		"--lc-messages-dir=" + filepath.Join(s.root, "usr", "share", "mysql"), "--tmpdir=" + s.dir, "--pid-file=" + filepath.Join(s.dir, "pid"),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--max-connections=200",
	}, nil
}

// await waits until the server answers.
func (s *server) await(driver string) error {
	db, err := sql.Open(driver, s.dsn)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // nothing was written
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("it ended before it answered:\n%s", s.log.String())
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w\n%s", err, s.log.String())
		case <-pause.C:
		}
	}
}
