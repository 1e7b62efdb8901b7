// Command leader shows and, in time, steers elections. Its first command is
// leader demo, a live election on a NATS server that it brings along.
//
// What is data goes to the standard output, what is prose to the standard error. The exit status is
// 0 on success, 1 on a failure, 2 on wrong usage, 3 if the demo ever saw two leaders
// at one instant.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
