package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// A file is what goes into an archive or a layer. Times and owners are the
// same in each build, so that equal sources give equal archives.
type file struct {
	name    string // with slashes; a directory's ends in one
	mode    fs.FileMode
	uid     int
	content []byte
	from    string // the file that holds the content, in place of content
}

// epoch is the time of all files.
func epoch() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func (f file) bytes() ([]byte, error) {
	if f.from == "" {
		return f.content, nil
	}
	return os.ReadFile(f.from)
}

// tarball writes the files uncompressed.
func tarball(w io.Writer, files []file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		data, err := f.bytes()
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(data)), ModTime: epoch(), Typeflag: tar.TypeReg,
			Uid: f.uid, Gid: f.uid, Format: tar.FormatPAX,
		}
		if f.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if path.Clean(f.name)+"/" == f.name {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return t.Close()
}

// gzipped writes a compressed tarball.
func gzipped(w io.Writer, files []file) error {
	z := gzip.NewWriter(w)
	return errors.Join(tarball(z, files), z.Close())
}
