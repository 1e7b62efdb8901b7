// Package skew builds programs whose clocks run at a different rate, as clocks
// of different machines do, while the machine's clock stays as it is.
//
// A Go program reads its clocks in package runtime, past any library that could
// be put before it, and a time namespace shifts clocks without changing their
// rate. So the compiler's overlay replaces the few functions of package runtime
// that read them. Monotonic and wall time run at [Variable] thousandths of the
// machine's rate from the start of the process on. Where the runtime asks the
// kernel to wake it, which counts true time, the duration is converted. Package
// syscall is changed in the same way for everything else that a program may ask
// the kernel: clock_gettime of CLOCK_BOOTTIME, gettimeofday, and
// timerfd_settime, by relative times or by times of CLOCK_BOOTTIME.
//
// To compare processes, the system call clock_gettime with CLOCK_MONOTONIC
// still reads the machine's clock.
package skew

import (
	"context"
	_ "embed" // the file that is added to package runtime
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/overlay"
)

// Variable names the rate in the environment of a process, in thousandths of
// the machine's: 901 makes a second of the process 1.11 s. Without it, and
// outside 500 to 1500, the process has the machine's clocks.
const Variable = "LEADER_LAB_CLOCK_RATE"

// True is the machine's own rate.
const True = 1000

//go:embed runtime_clock.go.txt
var inRuntime []byte

//go:embed syscall_clock.go.txt
var inSyscall []byte

// everywhere are the changes that are the same on all processors of Linux.
func everywhere() []overlay.Change {
	return []overlay.Change{
		{
			File: "runtime/time_nofake.go",
			Old:  "func nanotime() int64 {\n\treturn nanotime1()\n}",
			New:  "func nanotime() int64 {\n\tt := nanotime1()\n\treturn t + labGained(t)\n}",
		},
		{
			File: "runtime/netpoll_epoll.go",
			Old:  "\tvar waitms int32\n\tif delay < 0 {",
			New:  "\tvar waitms int32\n\tdelay = labSleep(delay)\n\tif delay < 0 {",
		},
		{File: "runtime/os_linux.go", Old: "\tts.setNsec(ns)\n", New: "\tts.setNsec(labSleep(ns))\n"},
		{
			File: "syscall/syscall_linux.go",
			Old:  "\tr1, r2, errno = linux.Syscall6(trap, a1, a2, a3, a4, a5, a6)\n",
			New: "\tset := labBefore(trap, a2, a3)\n\tr1, r2, errno = linux.Syscall6(trap, a1, a2, a3, a4, a5, a6)\n" +
				"\tif errno == 0 {\n\t\tlabAfter(trap, a1, a2, a3, set)\n\t}\n",
		},
	}
}

// now is the change of time.now, which each processor has its own way to read.
func now() map[string][]overlay.Change {
	return map[string][]overlay.Change{
		"amd64": {
			{
				File: "syscall/syscall_linux_amd64.go", // past system calls
				Old:  "\terrno := gettimeofday(tv)\n\tif errno != 0 {\n\t\treturn errno\n\t}\n",
				New:  "\terrno := gettimeofday(tv)\n\tif errno != 0 {\n\t\treturn errno\n\t}\n\tlabDay(tv)\n",
			},
			{File: "runtime/time_linux_amd64.s", Old: "TEXT time·now<ABIInternal>", New: "TEXT ·labTrueNow<ABIInternal>"},
			{
				File: "runtime/timeasm.go",
				Old:  "//go:linkname time_now time.now\nfunc time_now() (sec int64, nsec int32, mono int64)\n",
				New: "func labTrueNow() (sec int64, nsec int32, mono int64)\n\n" +
					"//go:linkname time_now time.now\nfunc time_now() (sec int64, nsec int32, mono int64) {\n\treturn labNow(labTrueNow())\n}\n",
			},
		},
		"arm64": {
			{
				File: "runtime/timestub.go",
				Old:  "\treturn sec, nsec, nanotime()\n",
				New:  "\treturn labNow(sec, nsec, nanotime1())\n",
			},
		},
	}
}

// Supported returns why a program with skewed clocks cannot be built for this
// system, or nil.
func Supported() error {
	if now()[runtime.GOARCH] == nil || runtime.GOOS != "linux" {
		return fmt.Errorf("skew: the clocks of %s/%s are not known here", runtime.GOOS, runtime.GOARCH)
	}
	return nil
}

// Overlay writes the changed files of Go's own packages into dir, and returns
// what [overlay.Build] wants to know of them.
func Overlay(ctx context.Context, dir string) (map[string]string, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	return overlayFor(ctx, dir, runtime.GOARCH)
}

// overlayFor is Overlay for a processor.
func overlayFor(ctx context.Context, dir, arch string) (map[string]string, error) {
	root, err := overlay.Go(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	root = filepath.Join(root, "src")
	replace, err := overlay.Write(root, dir, slices.Concat(everywhere(), now()[arch]))
	if err != nil {
		return nil, err
	}
	for name, source := range map[string][]byte{"runtime": inRuntime, "syscall": inSyscall} {
		copied, err := overlay.Copy(dir, "lab_clock.go", source)
		if err != nil {
			return nil, err
		}
		replace[filepath.Join(root, name, "lab_clock.go")] = copied
	}
	return replace, nil
}
