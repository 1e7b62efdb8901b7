package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Arguments that goreleaser passes to build, which it calls.
const (
	envTool    = "RELEASE_TOOL"    // a copy of this program
	envCommand = "RELEASE_COMMAND" // the package that go install takes
	envDist    = "RELEASE_DIST"    // the directory that goreleaser fills
	envVersion = "RELEASE_VERSION"
	// The commit's, in seconds and by RFC 3339. Goreleaser knows neither in a
	// clone without a remote, and would take the times at which files were
	// written.
	envSeconds = "RELEASE_SECONDS"
	envDate    = "RELEASE_DATE"
)

// maxImage is what an image may weigh in a registry.
const maxImage = 25_000_000

// shoot has goreleaser build what a release consists of. It knows the modules
// by the proxy in the directory alone, so that it builds what a user will
// install, and not the working tree.
func shoot(ctx context.Context, t *tree, version, goreleaser string, stdout, stderr io.Writer) error {
	root, err := filepath.Abs(t.root)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	seconds, err := output(ctx, root, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(strings.TrimSpace(seconds), 10, 64)
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	times := []string{envSeconds + "=" + strconv.FormatInt(unix, 10), envDate + "=" + time.Unix(unix, 0).UTC().Format(time.RFC3339)}
	return inMarket(ctx, t, version, func(m *market) error {
		share := filepath.Join(root, ".out", "share")
		if err := m.share(ctx, share); err != nil {
			return err
		}
		tool := filepath.Join(share, "release")
		if err := copyFile(self, tool); err != nil {
			return err
		}
		for _, args := range [][]string{{"check"}, {"release", "--snapshot", "--clean"}} {
			cmd := exec.CommandContext(ctx, goreleaser, args...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = root, stdout, stderr
			cmd.Env = append(slices.Clone(m.env), envTool+"="+tool, envCommand+"="+m.command(), envDist+"="+filepath.Join(root, ".out", "release"), envVersion+"="+version)
			cmd.Env = append(cmd.Env, times...)
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s %s: %w", goreleaser, args[0], err)
			}
		}
		return nil
	})
}

// share writes the files that all archives and packages hold in addition to the
// program: the manual and the completions, which the program prints.
func (m *market) share(ctx context.Context, dir string) error {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	program, err := m.install(ctx, runtime.GOOS+"/"+runtime.GOARCH, stripped)
	if err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"leader.1": {"man"}, "leader.bash": {"completion", "bash"}, "leader.zsh": {"completion", "zsh"}, "leader.fish": {"completion", "fish"},
	} {
		out, err := output(ctx, m.scratch, nil, program, args...)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(out+"\n"), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stripped leaves out what only a debugger needs. .goreleaser.yaml has the same
// flag, so that the program of this machine is linked once.
const stripped = "-ldflags=-s -w"

// build replaces the Go command that goreleaser calls: build FLAGS -o FILE
// PACKAGE. It installs the module of the version in place of the package, which
// is the one of the working tree.
func build(ctx context.Context, args []string) error {
	at := slices.Index(args, "-o")
	command := os.Getenv(envCommand)
	if at < 0 || at+1 >= len(args) || command == "" {
		return fmt.Errorf("build %q: want it called by goreleaser, which snapshot starts", args)
	}
	platform := os.Getenv("GOOS") + "/" + os.Getenv("GOARCH")
	program, err := install(ctx, os.Environ(), os.Getenv("GOPATH"), command, platform, args[:at]...)
	if err != nil {
		return err
	}
	// A copy, since the Go command does not link again if the result is in
	// place.
	return copyFile(program, args[at+1])
}

// writeImage writes the image of a program for linux. There is none for other
// systems.
func writeImage(program, goos, arch, version, file string, stdout io.Writer) error {
	if goos != "linux" {
		return nil
	}
	if err := static(program); err != nil {
		return err
	}
	i, err := newImage(program, arch, "leader:"+version, version)
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
	fmt.Fprintf(stdout, "image for linux/%s: %.1f MB in a registry\n", arch, float64(i.size)/1e6)
	return os.WriteFile(file, out.Bytes(), 0o644)
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
