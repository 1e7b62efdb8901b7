package databases

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

// A Server is one test's own: it syncs its files, listens on the loopback
// interface, and may be killed, frozen and started again. Its methods fail the
// test.
type Server struct {
	tb     testing.TB
	s      *server
	driver string // of database/sql
	args   []string
	port   int
	pid    int // of the process, 0 if it does not run
}

// OwnPostgreSQL starts a PostgreSQL server with the settings (name=value) for
// one test, which may kill it. The superuser is "lab", and everybody is
// trusted.
func (l *Lab) OwnPostgreSQL(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	bin := postgreSQL(tb)
	o := newOwn(tb, "pgx", bin)
	template, err := l.template(bin)
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	if out, err := o.s.command("/bin/cp", "-a", template, o.data()).CombinedOutput(); err != nil {
		tb.Fatalf("databases: %v\n%s", err, out)
	}
	o.postgres(settings)
	o.Run()
	return o
}

// OwnMariaDB starts a MariaDB server with the settings (--name=value) for one
// test, which may kill it. The user with all rights is "lab", without a
// password, and so is the database. It keeps a binlog, unless a setting is
// --skip-log-bin.
func (l *Lab) OwnMariaDB(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	bin := mariaDB(tb)
	o := newOwn(tb, "mysql", bin)
	template, err := l.mariadbTemplate(bin)
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	if out, err := o.s.command("/bin/cp", "-a", template, o.data()).CombinedOutput(); err != nil {
		tb.Fatalf("databases: %v\n%s", err, out)
	}
	init := filepath.Join(o.s.dir, "init.sql")
	text := "CREATE USER IF NOT EXISTS 'lab'@'%';\nGRANT ALL ON *.* TO 'lab'@'%' WITH GRANT OPTION;\nCREATE DATABASE IF NOT EXISTS lab;\n"
	if err := os.WriteFile(init, []byte(text), 0o644); err != nil {
		tb.Fatalf("databases: %v", err)
	}
	o.s.signal = "KILL"
	o.s.dsn = o.DSN("lab")
	o.args = append(o.s.mariadbArgs(), "--socket="+filepath.Join(o.s.dir, "sock"), "--port="+strconv.Itoa(o.port), "--bind-address=127.0.0.1",
		"--skip-name-resolve", "--init-file="+init, "--pid-file="+filepath.Join(o.s.dir, "pid"), "--max-connections=400",
		"--log-bin=binlog", "--server-id=1", "--sync-binlog=1")
	o.args = append(o.args, settings...)
	o.Run()
	return o
}

// mariadbArgs are what all runs of MariaDB in the directory have in common.
func (s *server) mariadbArgs() []string {
	return []string{
		"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data"), "--tmpdir=" + s.dir,
		"--lc-messages-dir=" + filepath.Join(s.root, "usr", "share", "mysql"), "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M",
	}
}

// mariadbTemplate returns the data of a MariaDB server that never ran, with its
// grant tables, made once.
func (l *Lab) mariadbTemplate(bin string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.made["mysql"]
	if s != nil {
		return filepath.Join(s.dir, "data"), nil
	}
	s, err := directory(bin)
	if err != nil {
		return "", err
	}
	if err := s.bootstrap(); err != nil {
		return "", errors.Join(err, os.RemoveAll(s.dir))
	}
	l.keep("mysql", s)
	return filepath.Join(s.dir, "data"), nil
}

// bootstrap makes the system tables, as mariadb-install-db does.
func (s *server) bootstrap() error {
	if err := s.mkdir(filepath.Join(s.dir, "data", "mysql")); err != nil {
		return err
	}
	script := bytes.NewBufferString("USE mysql;\nSET @auth_root_socket = NULL;\n")
	for _, part := range []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"} {
		text, err := os.ReadFile(filepath.Join(s.root, "usr", "share", "mysql", part))
		if err != nil {
			return err
		}
		script.Write(text)
	}
	cmd := s.command(s.bin, append(s.mariadbArgs(), "--bootstrap", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0")...)
	cmd.Stdin = script
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bootstrap: %w\n%s", err, out)
	}
	return nil
}

// keep has a directory removed when the lab is closed. l.mu is held.
func (l *Lab) keep(driver string, s *server) {
	if l.made == nil {
		l.made = make(map[string]*server)
	}
	l.made[driver] = s
}

// postgres makes the arguments of a PostgreSQL server.
func (o *Server) postgres(settings []string) {
	o.s.signal = "QUIT"
	o.s.dsn = o.DSN("lab")
	o.args = []string{
		"-D", o.data(), "-k", o.s.dir, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(o.port),
		"-c", "timezone=GMT", "-c", "log_timezone=GMT", "-c", "max_connections=100",
		"-c", "dynamic_shared_memory_type=mmap", // else a server that is killed leaves it behind in /dev/shm
	}
	for _, setting := range settings {
		o.args = append(o.args, "-c", setting)
	}
}

// template returns the data of a PostgreSQL server that never ran, made once.
func (l *Lab) template(bin string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.made["pgx"]
	if s != nil {
		return filepath.Join(s.dir, "data"), nil
	}
	s, err := directory(bin)
	if err != nil {
		return "", err
	}
	if _, err := postgres(s); err != nil {
		return "", errors.Join(err, os.RemoveAll(s.dir))
	}
	l.keep("pgx", s)
	return filepath.Join(s.dir, "data"), nil
}

// directory makes a server's directory, in which nothing runs yet.
func directory(bin string) (*server, error) {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if err := errors.Join(own(dir), s.reach(bin)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func newOwn(tb testing.TB, driver, bin string) *Server {
	tb.Helper()
	s, err := directory(bin)
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	o := &Server{tb: tb, s: s, driver: driver, port: ports.Free(tb, 1)[0]}
	tb.Cleanup(func() {
		o.Kill()
		_ = os.RemoveAll(s.dir) // it is temporary
		if tb.Failed() {
			tb.Logf("%s on port %d wrote:\n%s", filepath.Base(bin), o.port, lastLines(s.log.String(), 60))
		}
	})
	return o
}

// lastLines cuts a log to its end.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (o *Server) data() string { return filepath.Join(o.s.dir, "data") }

// Addr returns the server's host:port.
func (o *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(o.port) }

// URL returns the URL of the user's database at an address: the server's own,
// or a proxy's.
func (o *Server) URL(user, addr string) string {
	if o.driver == "mysql" {
		return fmt.Sprintf("mysql://%s@%s/lab?timeout=5s", user, addr)
	}
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", user, addr)
}

// DSN returns the user's data source name for database/sql. That of PostgreSQL
// is a URL as well.
func (o *Server) DSN(user string) string {
	if o.driver == "mysql" {
		return fmt.Sprintf("%s@tcp(%s)/lab", user, o.Addr())
	}
	return o.URL(user, o.Addr())
}

// DB returns a pool of the superuser, closed when the test ends.
func (o *Server) DB() *sql.DB {
	o.tb.Helper()
	return pool(o.tb, o.driver, o.s.dsn)
}

// Exec executes statements as the superuser.
func (o *Server) Exec(statements ...string) {
	o.tb.Helper()
	db, err := sql.Open(o.driver, o.s.dsn)
	if err != nil {
		o.tb.Fatalf("databases: %v", err)
	}
	defer db.Close() //nolint:errcheck // each statement was answered
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for _, text := range statements {
		if _, err := db.ExecContext(ctx, text); err != nil {
			o.tb.Fatalf("databases: %s: %v", text, err)
		}
	}
}

// leash is the tether of a server that may be killed and started again: its
// files go only with the process that started it.
const leash = `exec 3<&0; dir=$1 signal=$2; shift 2; trap '' HUP INT TERM
(trap - HUP INT TERM; exec "$@") </dev/null & server=$!
echo $server >"$dir/running"
(cat; : >"$dir/ended"; kill -"$signal" $server; kill -CONT $server) >/dev/null 2>&1 <&3 & watch=$!
wait $server
kill -KILL $watch 2>/dev/null
[ -e "$dir/ended" ] && rm -rf "$dir"`

// Run starts the server, and waits until it answers.
func (o *Server) Run() {
	o.tb.Helper()
	if err := o.start(); err != nil {
		o.tb.Fatalf("databases: %s: %v", filepath.Base(o.s.bin), err)
	}
}

func (o *Server) start() error {
	running := filepath.Join(o.s.dir, "running")
	_ = os.Remove(running) // of an earlier run, if there was one
	cmd := o.s.command("/bin/sh", append([]string{"-c", leash, "leash", o.s.dir, o.s.signal, o.s.bin}, o.args...)...)
	cmd.Stdout, cmd.Stderr = &o.s.log, &o.s.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	o.s.stdin, o.s.exited = stdin, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the exit status of a server that was ordered to end
	}()
	if err := o.s.await(o.driver); err != nil {
		return err
	}
	text, err := os.ReadFile(running)
	if err != nil {
		return err
	}
	o.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return err
}

// Kill ends all processes of the server at once (SIGKILL), as a failure of its
// machine would, but for what the system has of its files. It does nothing if
// the server does not run.
func (o *Server) Kill() {
	o.tb.Helper()
	if o.pid == 0 {
		o.end()
		return
	}
	for _, pid := range family(o.pid) {
		stopProcess(pid) // so that none starts another
	}
	for _, pid := range family(o.pid) {
		killProcess(pid)
	}
	o.pid = 0
	o.end()
}

// end waits until the shell of the server has ended.
func (o *Server) end() {
	if o.s.stdin == nil {
		return
	}
	select {
	case <-o.s.exited:
	case <-time.After(Patience):
		o.tb.Errorf("databases: the server did not end within %v", Patience)
	}
	_ = o.s.stdin.Close() // nobody reads it any more
	o.s.stdin = nil
}

// Freeze stops all processes of the server (SIGSTOP), which then hold their
// connections and answer nothing, until Thaw.
func (o *Server) Freeze() {
	pids := family(o.pid)
	for _, pid := range pids {
		stopProcess(pid)
	}
	awaitStopped(pids...)
}

// Thaw has the processes of a frozen server go on.
func (o *Server) Thaw() {
	for _, pid := range family(o.pid) {
		thawProcess(pid)
	}
}

// PgBouncer starts a pooler before a PostgreSQL server, in a mode ("session",
// "transaction"), and returns its host:port.
func (o *Server) PgBouncer(mode string) string {
	o.tb.Helper()
	b := newOwn(o.tb, o.driver, servers.Need(o.tb, "pgbouncer"))
	b.s.signal = "TERM" // by which it ends at once
	b.s.dsn = b.DSN("lab")
	config := filepath.Join(b.s.dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\npostgres = host=127.0.0.1 port=%d dbname=postgres\n"+
		"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n"+
		"default_pool_size = 4\nignore_startup_parameters = extra_float_digits\n", o.port, b.port, mode)
	// With auth_type=any the user is the one that the database's line names.
	text = strings.Replace(text, "dbname=postgres", "dbname=postgres user=lab", 1)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		o.tb.Fatalf("databases: %v", err)
	}
	b.args = []string{config}
	b.Run()
	return b.Addr()
}

// Standby starts a standby of a PostgreSQL server by its name, from a backup,
// and waits until it follows. The server may be killed and run again for it.
func (o *Server) Standby(name string, settings ...string) *Server {
	o.tb.Helper()
	st := newOwn(o.tb, o.driver, o.s.bin)
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=lab application_name=%s", o.port, name)
	o.backup(st, from)
	st.postgres(append([]string{"primary_conninfo=" + from}, settings...))
	st.Run()
	o.eventually("the standby follows", func(ctx context.Context, db *sql.DB) (ok bool, err error) {
		err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming')", name).Scan(&ok)
		return ok, err
	})
	return st
}

// backup copies the data to a standby that follows from there. Where there is
// no pg_basebackup, as in the archive of PostgreSQL 18, the server is killed,
// its files are copied, and it runs again.
func (o *Server) backup(st *Server, from string) {
	o.tb.Helper()
	program := filepath.Join(filepath.Dir(st.s.bin), "pg_basebackup")
	if _, err := os.Stat(program); err == nil {
		backup := st.s.command(program, "-D", st.data(), "-d", from, "-R", "-X", "stream", "-c", "fast", "--no-sync")
		if out, err := backup.CombinedOutput(); err != nil {
			o.tb.Fatalf("databases: pg_basebackup: %v\n%s", err, out)
		}
		return
	}
	o.Kill()
	for _, args := range [][]string{
		{"/bin/cp", "-a", o.data(), st.data()},
		{"/bin/rm", "-f", filepath.Join(st.data(), "postmaster.pid")},
		{"/usr/bin/touch", filepath.Join(st.data(), "standby.signal")},
	} {
		if out, err := st.s.command(args[0], args[1:]...).CombinedOutput(); err != nil {
			o.tb.Fatalf("databases: %v: %v\n%s", args, err, out)
		}
	}
	o.Run()
}

// Promote makes a standby, or a [Lab.Replica] of MariaDB, the primary, and
// waits until it is.
func (o *Server) Promote() {
	o.tb.Helper()
	if o.driver == "mysql" {
		o.takeOver()
		return
	}
	o.Exec("SELECT pg_promote()")
	o.eventually("the standby is promoted", func(ctx context.Context, db *sql.DB) (ok bool, err error) {
		err = db.QueryRowContext(ctx, "SELECT NOT pg_is_in_recovery()").Scan(&ok)
		return ok, err
	})
}

// eventually asks the server until it answers yes.
func (o *Server) eventually(what string, ask func(context.Context, *sql.DB) (bool, error)) {
	o.tb.Helper()
	db, err := sql.Open(o.driver, o.s.dsn)
	if err != nil {
		o.tb.Fatalf("databases: %v", err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		ok, err := ask(ctx, db)
		if ok && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			o.tb.Fatalf("databases: not within %v: %s: %v", Patience, what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Halt stops one process of the server (SIGSTOP) until Resume, such as the
// process of a session.
func (o *Server) Halt(pid int) {
	stopProcess(pid)
	awaitStopped(pid)
}

// Resume has a process go on that Halt stopped.
func (o *Server) Resume(pid int) { thawProcess(pid) }
