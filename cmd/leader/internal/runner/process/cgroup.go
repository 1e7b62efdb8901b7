// Package process starts, finds and ends processes: the processes of the
// program under leader run, and their descendants.
package process

// The values of --cgroup. Every other is a path.
const (
	CgroupAuto    = "auto"
	CgroupOff     = "off"
	CgroupRequire = "require"
)
