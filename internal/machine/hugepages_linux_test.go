package machine

import (
	"syscall"
	"unsafe"
)

// inHugePages asks the kernel for large pages for a table that is read at
// random: with small ones, most reads miss the processor's table of pages, too.
func inHugePages(slots []fingerprint) {
	const hugePage = 2 << 20
	if len(slots) == 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&slots[0])), len(slots)*int(unsafe.Sizeof(slots[0])))
	page := uintptr(syscall.Getpagesize())
	if off := int(-uintptr(unsafe.Pointer(&b[0])) & (page - 1)); len(b) >= off+hugePage {
		_ = syscall.Madvise(b[off:], syscall.MADV_HUGEPAGE) // it is slower without
	}
}
