// Package ferretlab starts FerretDB 1.24 for the project's tests, in a process
// of its own: a server that speaks MongoDB's protocol, and is none that
// elections can rely on. The program is the one that `make ferretdb` has put
// into the user's cache (see [Install]); a test that does not find it is
// skipped, and fails if LEADER_FERRETDB=required.
package ferretlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/internal/tethered"
)

// Version is FerretDB's version in the tests, the last that keeps its data
// without PostgreSQL's DocumentDB extension.
const Version = "v1.24.0"

// source is the server, over SQLite.
const source = `package main

import (
	"context"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	f, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: os.Args[1]}, Handler: "sqlite", SQLiteURL: "file:" + os.Args[2] + "/",
	})
	if err == nil {
		err = f.Run(context.Background())
	}
	if err != nil {
		panic(err)
	}
}
`

// program returns the path where Install puts the server.
func program() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "leader-ferretdb", runtime.GOOS+"-"+runtime.GOARCH+"-"+Version, "ferretdb"), nil
}

// Look tells w whether FerretDB is there.
func Look(w io.Writer) error {
	path, err := find()
	if err != nil {
		return fmt.Errorf("SKIPPED, NOT TESTED: %w", err)
	}
	fmt.Fprintf(w, "ferretlab: FerretDB %s is there: %s\n", Version, path)
	return nil
}

// errAbsent: the cache does not have FerretDB.
var errAbsent = errors.New("FerretDB is not installed: run `make ferretdb`, which takes a minute or two, once")

// find returns the program's path, if it is there.
func find() (string, error) {
	path, err := program()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", errAbsent
	}
	return path, nil
}

// Install builds FerretDB from its module into the user's cache, if it is not
// there, and tells w what it does. The go command fetches the modules and
// checks their sums; nothing of them gets into a go.mod of this repository.
func Install(ctx context.Context, w io.Writer) error {
	path, err := program()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		fmt.Fprintf(w, "ferretlab: FerretDB %s is there: %s\n", Version, path)
		return nil
	}
	fmt.Fprintf(w, "ferretlab: FerretDB %s is absent, and is about to be built into %s (a minute or two, once)\n", Version, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Dir(path)), "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	if err := os.WriteFile(filepath.Join(tmp, "main.go"), []byte(source), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "servers"}, {"get", "github.com/FerretDB/FerretDB@" + Version}, {"mod", "tidy"}, {"build", "-o", "ferretdb", "."}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = tmp, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return os.Rename(filepath.Join(tmp, "ferretdb"), path)
}

// Start starts a server, which is killed when the test ends, and returns its
// URI.
func Start(tb testing.TB) string {
	tb.Helper()
	path, err := find()
	if errors.Is(err, errAbsent) && os.Getenv("LEADER_FERRETDB") != "required" {
		tb.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	if err != nil {
		tb.Fatalf("ferretlab: %v", err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(tb, 1)[0]))
	server, err := tethered.Start(path, addr, tb.TempDir())
	if err != nil {
		tb.Fatalf("ferretlab: %v", err)
	}
	tb.Cleanup(server.Kill)
	natslab.Eventually(tb, "FerretDB listens", func(ctx context.Context) error {
		select {
		case <-server.Exited:
			tb.Fatalf("ferretlab: it has ended:\n%s", server.Log())
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return "mongodb://" + addr
}
