//go:build unix

package proofs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/proofs"
)

// narrow names the directory in which a process of this executable makes a key
// while no file may be longer than few bytes, as on a disk that is full.
const narrow = "KEYGEN_OF_THE_TEST"

const room = 10

func TestMain(m *testing.M) {
	dir := os.Getenv(narrow)
	if dir == "" {
		os.Exit(m.Run())
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: room}); err != nil {
		panic(err)
	}
	c := proofs.KeygenCommand{Key: filepath.Join(dir, "key"), Keys: filepath.Join(dir, "keys")}
	if err := c.Run(app.Streams{Out: os.Stdout}); !errors.Is(err, syscall.EFBIG) {
		panic(err)
	}
}

// A part of a key would have the next try fail as well.
func TestAKeyThatCannotBeWrittenLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), narrow+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	c := proofs.KeygenCommand{Key: filepath.Join(dir, "key"), Keys: filepath.Join(dir, "keys")}
	if err := c.Run(app.Streams{Out: new(bytes.Buffer)}); err != nil {
		t.Errorf("the next try: %v", err)
	}
}

// Those who verify read the file behind the link.
func TestTheSetBehindALinkIsAddedTo(t *testing.T) {
	dir := t.TempDir()
	set, link := filepath.Join(dir, "set"), filepath.Join(dir, "link")
	for i, keys := range []string{set, link} {
		c := proofs.KeygenCommand{Key: filepath.Join(dir, string(rune('a'+i))), Keys: keys}
		if err := c.Run(app.Streams{Out: new(bytes.Buffer)}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := os.Symlink("set", link); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := os.ReadFile(set)
	if err != nil || bytes.Count(text, []byte(`"kid"`)) != 2 {
		t.Errorf("%v\n%s", err, text)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
}

// The set would take the place of the key.
func TestTheKeyAndTheSetAreTwoFilesWhateverTheirNames(t *testing.T) {
	for name, link := range map[string]func(t *testing.T, dir string) (key, keys string){
		"a link to the directory": func(t *testing.T, dir string) (key, keys string) {
			must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
			must(t, os.Symlink("real", filepath.Join(dir, "other")))
			return filepath.Join(dir, "real", "file"), filepath.Join(dir, "other", "file")
		},
		"a link to the key": func(t *testing.T, dir string) (key, keys string) {
			must(t, os.Symlink("file", filepath.Join(dir, "link")))
			return filepath.Join(dir, "file"), filepath.Join(dir, "link")
		},
	} {
		t.Run(name, func(t *testing.T) {
			key, keys := link(t, t.TempDir())
			c := proofs.KeygenCommand{Key: key, Keys: keys}
			must(t, c.Validate()) // by their names, they are two
			if err := c.Run(app.Streams{Out: new(bytes.Buffer)}); !errors.Is(err, app.ErrUsage) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(key); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("there is a file: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
