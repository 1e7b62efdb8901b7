package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// make release-snapshot sets them.
var (
	snapshotDir     = flag.String("snapshot", "", "the `directory` that goreleaser built a snapshot into")
	snapshotVersion = flag.String("snapshot-version", version, "the `version` that it is of")
)

// platforms are the platforms of the archives; images and packages are for
// linux.
var platforms = [...]string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// TestTheSnapshot looks at what goreleaser built: that nothing is missing, what
// is in it, and that it starts where this machine can start it.
func TestTheSnapshot(t *testing.T) {
	dir, of := *snapshotDir, *snapshotVersion
	if dir == "" {
		t.Skip("SKIPPED: make release-snapshot builds it")
	}
	t.Run("Sums", func(t *testing.T) { sums(t, dir, of) })
	t.Run("Times", func(t *testing.T) { times(t, dir) })
	for _, p := range platforms {
		goos, arch, _ := strings.Cut(p, "/")
		base := filepath.Join(dir, fmt.Sprintf("leader_%s_%s_%s", of, goos, arch))
		t.Run("Archive/"+p, func(t *testing.T) { archive(t, base, p, of) })
		t.Run("List/"+p, func(t *testing.T) { list(t, base+".cdx.json", of) })
		if goos == "linux" {
			t.Run("Package/"+p, func(t *testing.T) { packaged(t, base+".deb", p, of) })
		}
	}
	if runtime.GOOS == "linux" {
		image := filepath.Join(dir, fmt.Sprintf("leader_%s_linux_%s_image.tar", of, runtime.GOARCH))
		t.Run("Image", func(t *testing.T) { loaded(t, image, of) })
		t.Run("Container", func(t *testing.T) { contained(t, image, of) })
	}
}

// sums holds the files against their sums, and the names against what a release
// consists of.
func sums(t *testing.T, dir, of string) {
	data, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var names, want []string
	for line := range strings.Lines(string(data)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != sum {
			t.Errorf("%s has the sum %s, not %s", name, got, sum)
		}
		names = append(names, name)
	}
	for _, p := range platforms {
		goos, arch, _ := strings.Cut(p, "/")
		ends := []string{".cdx.json", ".tar.gz"}
		switch goos {
		case "linux":
			ends = append(ends, ".deb", ".rpm", ".apk", "_image.tar")
		case "windows":
			ends[1] = ".zip"
		}
		for _, end := range ends {
			want = append(want, fmt.Sprintf("leader_%s_%s_%s%s", of, goos, arch, end))
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("sums of %q, want %q", names, want)
	}
}

func archive(t *testing.T, base, platform, of string) {
	to, program, ending := t.TempDir(), "leader", ".tar.gz"
	if strings.HasPrefix(platform, "windows/") {
		program, ending = "leader.exe", ".zip"
	}
	got := unpack(t, base+ending, to)
	want := []string{
		"LICENSE", "cli.md", program, "share/completions/leader.bash", "share/completions/leader.fish",
		"share/completions/leader.zsh", "share/man/man1/leader.1",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	startOn(t, platform, of, filepath.Join(to, program))
}

// packaged unpacks a package, where this machine can, and starts the program.
func packaged(t *testing.T, name, platform, of string) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skipf("SKIPPED, NOT UNPACKED: %v", err)
	}
	to := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--extract", name, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range []string{"man/man1/leader.1", "bash-completion/completions/leader", "doc/leader/copyright"} {
		if _, err := os.Stat(filepath.Join(to, "usr", "share", file)); err != nil {
			t.Error(err)
		}
	}
	startOn(t, platform, of, filepath.Join(to, "usr", "bin", "leader"))
}

// times demands that all files in all archives have the time of the commit:
// equal sources give equal archives, whenever they are built.
func times(t *testing.T, dir string) {
	all := map[int64]string{}
	note := func(at time.Time, archive, file string) { all[at.Unix()] = archive + ": " + file }
	for _, pattern := range []string{"*.tar.gz", "*.zip"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatal("no archives", err)
		}
		for _, name := range names {
			if err := each(name, note); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(all) != 1 {
		t.Errorf("files are of %d times: %v", len(all), all)
	}
}

// each calls f with each file of an archive.
func each(name string, f func(at time.Time, archive, file string)) error {
	base := filepath.Base(name)
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.OpenReader(name)
		if err != nil {
			return err
		}
		defer z.Close() //nolint:errcheck // it was read
		for _, file := range z.File {
			f(file.Modified, base, file.Name)
		}
		return nil
	}
	data, err := os.Open(name)
	if err != nil {
		return err
	}
	defer data.Close() //nolint:errcheck // it was read
	plain, err := gzip.NewReader(data)
	if err != nil {
		return err
	}
	for in := tar.NewReader(plain); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(h.ModTime, base, h.Name)
	}
}

func TestAnImagesFilesHaveOneOrder(t *testing.T) {
	for range 20 {
		var names []string
		i := &image{}
		if err := i.finish("leader:v1", descriptor{}, descriptor{}, descriptor{}); err != nil {
			t.Fatal(err)
		}
		for _, f := range i.files {
			names = append(names, f.name)
		}
		if want := []string{"oci-layout", "index.json", "manifest.json"}; !slices.Equal(names, want) {
			t.Fatalf("%q, want %q", names, want)
		}
	}
}

// noRandomness is the message of Go's runtime under wine 8, which has no source
// of random numbers for it.
const noRandomness = "bcryptprimitives.dll not found"

// startOn starts a program of a platform where this machine can, and reports
// where it cannot.
func startOn(t *testing.T, platform, of, program string) {
	if platform == runtime.GOOS+"/"+runtime.GOARCH {
		says(t, of, program)
		t.Logf("%s: started: it prints %s", platform, of)
		return
	}
	runner := runnerOf(platform)
	if runner == "" {
		t.Skipf("%s: built, NOT STARTED: nothing here runs it", platform)
	}
	out, err := exec.CommandContext(t.Context(), runner, program, "version", "-o", "name").CombinedOutput()
	if err != nil && strings.Contains(string(out), noRandomness) {
		t.Skipf("%s: built, NOT STARTED: %s starts no program of Go: %s", platform, runner, noRandomness)
	}
	says(t, of, runner, program)
	t.Logf("%s: started by %s: it prints %s", platform, runner, of)
}

// runnerOf is the program by which this machine runs programs of another
// platform; empty if it has none.
func runnerOf(platform string) string {
	for _, name := range map[string][]string{
		"linux/arm64": {"qemu-aarch64", "qemu-aarch64-static"}, "windows/amd64": {"wine"},
	}[platform] {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
	}
	return ""
}

// says lets the program print its version, and the version of the library.
func says(t *testing.T, want, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append(args, "version", "-o", "json")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var told struct{ Version, Library string }
	if err := json.Unmarshal(out, &told); err != nil || told.Version != want || told.Library != want {
		t.Errorf("%v: the program prints %s", err, out)
	}
}

// list holds a list of modules against go.mod, for some that must be there.
func list(t *testing.T, name, of string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		BOMFormat, SpecVersion string
		Components             []component
	}
	if err := json.Unmarshal(data, &l); err != nil || l.BOMFormat != "CycloneDX" || l.SpecVersion != "1.6" {
		t.Fatalf("%v: %.200s", err, data)
	}
	at := map[string]component{}
	for _, c := range l.Components {
		if _, twice := at[c.Ref]; twice {
			t.Errorf("%s is there twice", c.Ref)
		}
		at[c.Name] = c
	}
	for _, path := range []string{"github.com/seed-ff2cb582/leader", "github.com/seed-ff2cb582/leader/store/redisstore"} {
		if at[path].Version != of {
			t.Errorf("%s: %+v", path, at[path])
		}
	}
	nats := at["github.com/nats-io/nats.go"]
	if !strings.HasPrefix(nats.PURL, "pkg:golang/github.com/nats-io/nats.go@v1.") || len(nats.Hashes) != 1 || len(nats.Hashes[0].Content) != 64 {
		t.Errorf("%+v", nats)
	}
}

// unpack unpacks an archive, and returns its files.
func unpack(t *testing.T, name, to string) (names []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if z, err := zip.NewReader(bytes.NewReader(data), int64(len(data))); err == nil {
		for _, f := range z.File {
			names = append(names, f.Name)
		}
		if err := os.CopyFS(to, z); err != nil {
			t.Fatal(err)
		}
		return names
	}
	var r io.Reader = bytes.NewReader(data)
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		r = z
	}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(to, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o755)
		} else {
			names = append(names, h.Name)
			err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), writeFrom(at, in, h.FileInfo().Mode()))
		}
		if err == nil && h.Typeflag == tar.TypeDir {
			err = os.Chmod(at, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeFrom(name string, r io.Reader, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
