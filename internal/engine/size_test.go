package engine

import (
	"testing"
	"unsafe"
)

// A program may run ten thousand elections, and the allocator rounds up to a
// size class: one more field can cost each of them 384 bytes.
func TestCandidateFillsItsSizeClass(t *testing.T) {
	const class, header = 2688, 8 // runtime/sizeclasses.go, and what precedes an object with pointers
	if size := unsafe.Sizeof(Candidate{}) + header; unsafe.Sizeof(uintptr(0)) == 8 && size > class {
		t.Errorf("%d bytes, more than the %d of the class: move what few candidates need behind a pointer", size, class)
	}
}
