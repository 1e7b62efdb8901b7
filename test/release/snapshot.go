package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platforms are those of which there are archives; the images are of linux.
var platforms = [...]string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// maxImage is what an image may weigh in a registry.
const maxImage = 25 << 20

// A snapshot is a directory of what a release consists of.
type snapshot struct {
	market *market
	dir    string
	shared []file // of every archive
	names  []string
	say    func(format string, args ...any)
}

// newSnapshot prepares what all archives share: the licence, the page, the
// manual and the completions, which a program of this machine prints.
func newSnapshot(ctx context.Context, m *market, dir string, say func(string, ...any)) (*snapshot, error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	s := &snapshot{market: m, dir: dir, say: say}
	program, err := m.install(ctx, runtime.GOOS+"/"+runtime.GOARCH, "-ldflags=-s -w")
	if err != nil {
		return nil, err
	}
	s.shared = []file{
		{name: "LICENSE", mode: 0o644, from: m.tree.in("LICENSE")}, {name: "cli.md", mode: 0o644, from: m.tree.in("docs", "cli.md")},
	}
	for name, args := range map[string][]string{
		"share/man/man1/leader.1":       {"man"},
		"share/completions/leader.bash": {"completion", "bash"},
		"share/completions/leader.zsh":  {"completion", "zsh"},
		"share/completions/leader.fish": {"completion", "fish"},
	} {
		out, err := output(ctx, m.scratch, nil, program, args...)
		if err != nil {
			return nil, err
		}
		s.shared = append(s.shared, file{name: name, mode: 0o644, content: []byte(out + "\n")})
	}
	slices.SortFunc(s.shared, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return s, nil
}

// add builds what there is of a platform: an archive, a list of what is in it,
// and an image if it is linux.
func (s *snapshot) add(ctx context.Context, platform string) error {
	program, err := s.market.install(ctx, platform, "-ldflags=-s -w")
	if err != nil {
		return err
	}
	goos, arch, _ := strings.Cut(platform, "/")
	base := fmt.Sprintf("leader_%s_%s_%s", s.market.version, goos, arch)
	files := append([]file{{name: filepath.Base(program), mode: 0o755, from: program}}, s.shared...)
	name, write := base+".tar.gz", gzipped
	if goos == "windows" {
		name, write = base+".zip", zipped
	}
	var archive bytes.Buffer
	if err := write(&archive, files); err != nil {
		return err
	}
	list, err := sbom(program)
	if err != nil {
		return err
	}
	if err := errors.Join(s.write(name, archive.Bytes()), s.write(base+".cdx.json", list)); err != nil {
		return err
	}
	if goos == "linux" {
		if err := s.image(program, arch); err != nil {
			return err
		}
	}
	return s.start(ctx, program, platform)
}

func (s *snapshot) image(program, arch string) error {
	if err := static(program); err != nil {
		return err
	}
	i, err := newImage(program, arch, "leader:"+s.market.version, s.market.version)
	if err != nil {
		return err
	}
	if i.size > maxImage {
		return fmt.Errorf("the image for %s weighs %d bytes: want at most %d", arch, i.size, maxImage)
	}
	var out bytes.Buffer
	if err := tarball(&out, i.files); err != nil {
		return err
	}
	s.say("image for linux/%s: %.1f MB in a registry", arch, float64(i.size)/1e6)
	return s.write(fmt.Sprintf("leader_%s_linux_%s_image.tar", s.market.version, arch), out.Bytes())
}

// static fails if a program needs a loader or libraries, which an image does
// not have.
func static(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was read
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically", program)
		}
	}
	return nil
}

func (s *snapshot) write(name string, data []byte) error {
	s.names = append(s.names, name)
	return os.WriteFile(filepath.Join(s.dir, name), data, 0o644)
}

// noRandomness is what Go's runtime says under wine 8, which has nothing that it
// could draw random numbers from.
const noRandomness = "bcryptprimitives.dll not found"

// start runs the program where this machine can, and says where not.
func (s *snapshot) start(ctx context.Context, program, platform string) error {
	var command []string
	if platform != runtime.GOOS+"/"+runtime.GOARCH {
		runner := runnerOf(platform)
		if runner == "" {
			s.say("%s: built, NOT STARTED: nothing here runs it", platform)
			return nil
		}
		command = []string{runner}
	}
	command = append(command, program, "version", "-o", "name")
	out, err := output(ctx, s.market.scratch, nil, command[0], command[1:]...)
	if err != nil && strings.Contains(err.Error(), noRandomness) {
		s.say("%s: built, NOT STARTED: %s starts no program of Go: %s", platform, command[0], noRandomness)
		return nil
	}
	if err != nil {
		return err
	}
	if strings.TrimSpace(out) != s.market.version {
		return fmt.Errorf("%s: the program says that it is %q", platform, out)
	}
	s.say("%s: built, and started: it says %s", platform, out)
	return nil
}

// runnerOf is the program by which this machine runs those of another platform;
// empty if it has none.
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

// finish writes the sums of all files.
func (s *snapshot) finish() error {
	slices.Sort(s.names)
	var sums strings.Builder
	for _, name := range s.names {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(s.dir, "checksums.txt"), []byte(sums.String()), 0o644)
}
