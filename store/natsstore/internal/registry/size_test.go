package registry

import (
	"testing"
	"unsafe"
)

// An election watches two keys, and the allocator rounds up to a size class:
// one field more costs each of ten thousand elections 64 bytes.
func TestARegisterFitsItsSizeClass(t *testing.T) {
	const class = 256 // runtime/sizeclasses.go
	if size := unsafe.Sizeof(register{}); unsafe.Sizeof(uintptr(0)) == 8 && size > class {
		t.Errorf("%d bytes, more than the %d of the class", size, class)
	}
}
