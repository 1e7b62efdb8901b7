package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Cgroup is the directory of a cgroup (version 2) in which one run of the
// program lives, empty for none. A process that may write to it may kill all
// that are in it, of any user.
type Cgroup string

// Cgroups is the directory in which the cgroups of the runs are made, empty for
// none.
type Cgroups string

// FindCgroups returns where cgroups can be made, by the value of --cgroup. With
// auto it returns why there is none, and no error otherwise than by the others.
// To know it before the program is started is what allows to refuse one that
// could not be ended.
func FindCgroups(mode string) (where Cgroups, why, err error) {
	switch mode {
	case CgroupOff:
		return "", errors.New("--cgroup off"), nil
	case CgroupAuto, CgroupRequire:
		if where, why = ownCgroup(); why == nil {
			why = where.try()
		}
	default:
		where = Cgroups(mode)
		why = where.try()
	}
	switch {
	case why == nil:
		return where, nil, nil
	case mode == CgroupAuto:
		return "", why, nil
	default:
		return "", why, fmt.Errorf("--cgroup %s: %w", mode, why)
	}
}

// ownCgroup returns the cgroup of this process. Only below that can one hope to
// have the right to make another.
func ownCgroup() (Cgroups, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return cgroupDir(own, mounts)
}

var errNoCgroup = errors.New("this system shows no cgroup of version 2 that leader run is in")

// cgroupDir finds the directory of a cgroup, as cgroups(7) lists it, among the
// mounts, as proc_pid_mountinfo(5) lists them.
func cgroupDir(own, mounts []byte) (Cgroups, error) {
	path, ok := "", false
	for line := range bytes.Lines(own) {
		if after, is := bytes.CutPrefix(line, []byte("0::/")); is {
			path, ok = "/"+strings.TrimSuffix(string(after), "\n"), true
		}
	}
	if !ok || path == "/.." || strings.HasPrefix(path, "/../") { // outside of our namespace
		return "", errNoCgroup
	}
	for line := range bytes.Lines(mounts) {
		fields := strings.Fields(string(line))
		dash := slices.Index(fields, "-")
		if dash < 5 || len(fields) < dash+2 || fields[dash+1] != "cgroup2" {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return Cgroups(filepath.Join(fields[4], below)), nil
		}
	}
	return "", errNoCgroup
}

// try reports why no cgroup with what we need can be made. It makes one and
// looks, since nothing else proves it: rights, the kernel's age and the type
// that the parent imposes all matter.
func (p Cgroups) try() error {
	c, err := p.Make()
	if err != nil {
		return err
	}
	defer c.Remove()
	kind, err := os.ReadFile(c.file("cgroup.type"))
	if err != nil {
		return err
	}
	if k := string(bytes.TrimSpace(kind)); k != "domain" {
		return fmt.Errorf("cgroups in %s are of the type %q, and only one of the type domain takes processes", string(p), k)
	}
	f, err := os.OpenFile(c.file("cgroup.kill"), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the system's cgroups have no cgroup.kill: it is older than Linux 5.14")
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// Make makes a cgroup for one run. Without a parent it makes none. The name is
// unlike any other, so that a run never joins what an earlier one left.
func (p Cgroups) Make() (Cgroup, error) {
	if p == "" {
		return "", nil
	}
	dir, err := os.MkdirTemp(string(p), "leader-run-")
	return Cgroup(dir), err
}

func (c Cgroup) file(name string) string { return filepath.Join(string(c), name) }

// Enter has a process be started in the cgroup. The directory is to be closed
// after that. The kernel puts it there as it makes it (CLONE_INTO_CGROUP): a
// process that was moved later could have forked before.
func (c Cgroup) Enter(attr *syscall.SysProcAttr) (dir *os.File, err error) {
	fd, err := unix.Open(string(c), unix.O_DIRECTORY|unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: string(c), Err: err}
	}
	attr.UseCgroupFD, attr.CgroupFD = true, fd
	return os.NewFile(uintptr(fd), string(c)), nil
}

// Kill kills all that are in the cgroup, and those below it, at one blow:
// nobody forks away from it. It reports whether it did.
func (c Cgroup) Kill() bool {
	return c != "" && os.WriteFile(c.file("cgroup.kill"), []byte("1"), 0) == nil
}

// Populated reports whether a process lives in the cgroup or below it. A
// removed cgroup is empty; an unreadable cgroup is not known to be empty.
func (c Cgroup) Populated() bool {
	if c == "" {
		return false
	}
	events, err := os.ReadFile(c.file("cgroup.events"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return !bytes.Contains(events, []byte("populated 0"))
}

// holds reports whether a process is in the cgroup or below it. In doubt it
// returns false: then the process is named to the user as out of reach.
func (c Cgroup) holds(pid int) bool {
	if c == "" {
		return false
	}
	of, err := os.Open(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	defer func() { _ = of.Close() }()
	for lines := bufio.NewScanner(of); lines.Scan(); {
		// The name is like no other.
		if path, ok := strings.CutPrefix(lines.Text(), "0::"); ok {
			return slices.Contains(strings.Split(path, "/"), filepath.Base(string(c)))
		}
	}
	return false
}

// Remove removes the cgroup and the cgroups that the program made below it. A
// cgroup that cannot be removed is left to the owner of its parent.
func (c Cgroup) Remove() {
	if c == "" {
		return
	}
	below, _ := os.ReadDir(string(c)) // what there is
	for _, e := range below {
		if e.IsDir() {
			Cgroup(c.file(e.Name())).Remove()
		}
	}
	_ = unix.Rmdir(string(c))
}

// Excuse returns the given processes that the cgroup's kill does not reach. The
// others have been killed or will be, without any right over them, and need not
// worry the user. Processes that have ended meanwhile, by that kill for
// example, are left out as well: their cgroup can no longer be read.
func (c Cgroup) Excuse(all []Survivor) (rest []Survivor) {
	for _, s := range all {
		if !c.holds(s.PID) && s.lives() {
			rest = append(rest, s)
		}
	}
	return rest
}
