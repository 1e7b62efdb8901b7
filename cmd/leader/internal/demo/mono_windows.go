//go:build windows

package demo

import (
	"math/bits"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// performance finds the performance counter in kernel32, and its rate.
var performance = sync.OnceValues(func() (*windows.LazyProc, int64) {
	kernel := windows.NewLazySystemDLL("kernel32.dll")
	var perSecond int64
	_, _, _ = kernel.NewProc("QueryPerformanceFrequency").Call(uintptr(unsafe.Pointer(&perSecond)))
	return kernel.NewProc("QueryPerformanceCounter"), max(perSecond, 1)
})

// monoNow reads the performance counter, which is one for all processes of the
// machine. The product is computed in 128 bits, since ticks times 1e9 exceed 64
// within the hour.
func monoNow() int64 {
	counter, perSecond := performance()
	var ticks int64
	_, _, _ = counter.Call(uintptr(unsafe.Pointer(&ticks)))
	hi, lo := bits.Mul64(uint64(ticks), 1e9)
	ns, _ := bits.Div64(hi, lo, uint64(perSecond))
	return int64(ns)
}
