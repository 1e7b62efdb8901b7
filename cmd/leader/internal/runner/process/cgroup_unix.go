//go:build unix && !linux

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// There are no cgroups here.
type (
	// Cgroup is always empty.
	Cgroup string
	// Cgroups is always empty.
	Cgroups string
)

var errNoCgroup = errors.New("only Linux has cgroups")

// FindCgroups returns an error if one is required.
func FindCgroups(mode string) (where Cgroups, why, err error) {
	if mode != CgroupOff && mode != CgroupAuto {
		err = fmt.Errorf("--cgroup %s: %w", mode, errNoCgroup)
	}
	return "", errNoCgroup, err
}

// Make makes none.
func (Cgroups) Make() (Cgroup, error) { return "", nil }

// Enter fails.
func (Cgroup) Enter(*syscall.SysProcAttr) (*os.File, error) { return nil, errNoCgroup }

// Kill reports false: there is nothing to kill.
func (Cgroup) Kill() bool { return false }

// Populated reports false.
func (Cgroup) Populated() bool { return false }

// Remove does nothing.
func (Cgroup) Remove() {}

// Excuse returns all: a cgroup reaches none of them.
func (Cgroup) Excuse(all []Survivor) []Survivor { return all }
