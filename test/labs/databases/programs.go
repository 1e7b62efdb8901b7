package databases

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Programs are the programs of a server and its companions, for a test that
// runs them itself.
type Programs struct{ s *server }

// PostgreSQLPrograms finds PostgreSQL's programs, psql included.
func PostgreSQLPrograms(tb testing.TB) *Programs {
	tb.Helper()
	s, err := directory(postgreSQL(tb))
	if err != nil {
		tb.Fatalf("databases: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(s.dir) }) // it is temporary
	return &Programs{s}
}

// Dir is a directory of the test's that the programs' user may write to, and
// that is removed with the test.
func (p *Programs) Dir() string { return p.s.dir }

// Bin is the directory of the server's program, which any user may execute.
func (p *Programs) Bin() string { return filepath.Dir(p.s.bin) }

// Command returns a command, one of the programs if it is just a name. It runs
// as a user who is not root, as PostgreSQL demands, and finds the programs by
// its PATH, behind the directories that are given.
func (p *Programs) Command(before []string, name string, args ...string) *exec.Cmd {
	programs := p.Bin()
	if !strings.ContainsRune(name, filepath.Separator) {
		name = filepath.Join(programs, name)
	}
	cmd := p.s.command(name, args...)
	path := slices.Concat(before, []string{programs, os.Getenv("PATH")})
	cmd.Env = append(cmd.Env, "PATH="+strings.Join(path, string(filepath.ListSeparator)))
	return cmd
}
