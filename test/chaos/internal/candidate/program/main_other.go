//go:build !linux

// Program is what the fire lab runs, which is for Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "candidate: only on Linux")
	os.Exit(2)
}
