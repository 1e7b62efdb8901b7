//go:build unix && !linux

package runner

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// There are no cgroups here.
type (
	cgroup  string
	cgroups string
)

var errNoCgroup = errors.New("only Linux has cgroups")

func findCgroups(mode string) (where cgroups, why, err error) {
	if mode != cgroupOff && mode != cgroupAuto {
		err = fmt.Errorf("--cgroup %s: %w", mode, errNoCgroup)
	}
	return "", errNoCgroup, err
}

func (cgroups) make() (cgroup, error) { return "", nil }

func (cgroup) enter(*syscall.SysProcAttr) (*os.File, error) { return nil, errNoCgroup }

func (cgroup) kill() bool { return false }

func (cgroup) populated() bool { return false }

func (cgroup) remove() {}

func (cgroup) excuse(all []survivor) []survivor { return all }
