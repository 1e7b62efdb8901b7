package runner

// The values of --cgroup; every other is a path.
const (
	cgroupAuto    = "auto"
	cgroupOff     = "off"
	cgroupRequire = "require"
)
