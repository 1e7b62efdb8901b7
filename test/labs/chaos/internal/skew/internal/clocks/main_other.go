//go:build !linux

// Command clocks needs Linux's timers.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "clocks: only on Linux")
	os.Exit(2)
}
