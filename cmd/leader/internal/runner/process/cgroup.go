// Package process starts, finds and ends processes: those of the program that
// leader run runs, and whatever descends from them.
package process

// The values of --cgroup. Every other is a path.
const (
	CgroupAuto    = "auto"
	CgroupOff     = "off"
	CgroupRequire = "require"
)
