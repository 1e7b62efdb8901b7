package arena

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// diskBytes is the size of a disk: the servers' files need a small part of it.
const diskBytes = "64m"

// A Disk is a small file system in memory behind another one (FUSE) that can be
// made slow.
type Disk struct {
	backing string
	mount   string
	delay   atomic.Int64 // of each write and each sync, ns
}

// newDisk mounts a disk at mount. It needs the right to mount.
func newDisk(backing, mount string) (*Disk, error) {
	d := &Disk{backing: backing, mount: mount}
	for _, dir := range []string{backing, mount} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("tmpfs", backing, "tmpfs", 0, "size="+diskBytes); err != nil {
		return nil, os.NewSyscallError("mount", err)
	}
	root, err := fs.NewLoopbackRoot(backing)
	if err == nil {
		_, err = fs.Mount(mount, d.wrap(root), &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "chaos"}})
	}
	if err != nil {
		_ = unix.Unmount(backing, unix.MNT_DETACH)
		return nil, err
	}
	return d, keepFuse()
}

// keepFuse keeps the descriptors that serve the file systems out of the
// processes that are started later. If one of these had them, the file systems
// would seem to be served after the end of the lab, and their users would wait
// for ever.
func keepFuse() error {
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		if target, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && target == "/dev/fuse" {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// close unmounts it, even if a process still has files open.
func (d *Disk) close() {
	_ = unix.Unmount(d.mount, unix.MNT_DETACH)
	_ = unix.Unmount(d.backing, unix.MNT_DETACH)
}

// Slow makes each write and each sync take so much longer; 0 ends it.
func (d *Disk) Slow(by time.Duration) { d.delay.Store(int64(by)) }

func (d *Disk) filler() string { return filepath.Join(d.backing, "filler") }

// Fill leaves no room on the disk.
func (d *Disk) Fill() error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nobody reads it
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return err
}

// Empty undoes Fill.
func (d *Disk) Empty() error { return os.Remove(d.filler()) }

// A node is a file or a directory of the disk.
type node struct {
	*fs.LoopbackNode
	disk *Disk
}

// wrap makes a node of the loopback one of the disk.
func (d *Disk) wrap(n fs.InodeEmbedder) fs.InodeEmbedder {
	if l, ok := n.(*fs.LoopbackNode); ok {
		return &node{l, d}
	}
	return n
}

// WrapChild implements fs.NodeWrapChilder.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return n.disk.wrap(child)
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	return n.wrap(h), fuseFlags, errno
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, h, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.wrap(h), fuseFlags, errno
}

func (n *node) wrap(h fs.FileHandle) fs.FileHandle {
	if f, ok := h.(file); ok {
		return slowFile{f, n.disk}
	}
	return h
}

// A file is what an open file of the loopback can do, but for handing its
// descriptor to the kernel, which would then write without asking the disk.
type file interface {
	fs.FileReader
	fs.FileWriter
	fs.FileFlusher
	fs.FileFsyncer
	fs.FileReleaser
	fs.FileGetattrer
	fs.FileSetattrer
	fs.FileLseeker
	fs.FileAllocater
}

type slowFile struct {
	file
	disk *Disk
}

func (f slowFile) pace() {
	if d := f.disk.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d)) //nolint:forbidigo // this is the fault, not a wait for something
	}
}

// Write implements fs.FileWriter.
func (f slowFile) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	f.pace()
	return f.file.Write(ctx, data, off)
}

// Fsync implements fs.FileFsyncer.
func (f slowFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	f.pace()
	return f.file.Fsync(ctx, flags)
}
