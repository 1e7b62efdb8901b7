// Package shield keeps a panic from taking the program down.
//
// A panic that leaves a goroutine ends the whole process, no matter whose code
// panicked. A library that starts goroutines therefore shields its callers from
// every panic in them: in its callers' functions and in its own. The runtime's
// fatal errors (concurrent map writes, a deadlock, no memory left) cannot be
// caught.
package shield

import (
	"fmt"
	"runtime/debug"
)

// Call calls f and reports whether it returned. If it did not, report is called
// with what f panicked with, and the stack at that point. After runtime.Goexit
// the value is nil, report is called as well, and the goroutine then ends: a
// caller that has more to do defers it.
func Call(f func(), report func(value any, stack []byte)) (ok bool) {
	defer func() {
		if !ok {
			report(recover(), debug.Stack())
		}
	}()
	f()
	return true
}

// Text describes a panic of what for people, with the stack.
func Text(what string, value any, stack []byte) string {
	return fmt.Sprintf("%s panicked: %v\n%s", what, Value(value), stack)
}

// Value returns what to show of a panic's value: nil represents runtime.Goexit.
func Value(value any) any {
	if value == nil {
		return "runtime.Goexit was called"
	}
	return value
}
