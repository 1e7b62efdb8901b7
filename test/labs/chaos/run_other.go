//go:build !linux

package main

import (
	"context"
	"fmt"
	"io"
)

// run explains itself: the faults are done by what Linux offers.
func run(_ context.Context, _ []string, _, stderr io.Writer) int {
	fmt.Fprintln(stderr, "chaos: the fire lab needs Linux")
	return 1
}
