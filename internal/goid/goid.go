// Package goid identifies goroutines. Go offers no way to do so but the text of
// a stack trace; here it serves one purpose only: that a function which waits
// for a callback to return does not wait when it is called by that very
// callback.
package goid

import (
	"bytes"
	"runtime"
	"strconv"
)

// Current returns the number of the calling goroutine, which is not used again,
// or 0 if it is unknown.
func Current() uint64 {
	var buf [64]byte
	b := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(b, []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0 // an unknown format: then nobody is taken for anybody else
	}
	return id
}
