// Program is the program that the fire lab runs as candidates, and as the busy
// loops that starve them. It is separate from the lab, since the lab rebuilds
// it with skewed clocks (package skew), and perhaps with a bug (package
// mutant).
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(1)
	}
}
