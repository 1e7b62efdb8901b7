// Server is the program that the fire lab runs as NATS servers whose clocks run
// at a different rate. It is separate from the lab, since the lab rebuilds it
// with such clocks (package skew).
package main

import (
	"fmt"
	"os"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

func main() {
	if !natslab.Serving() {
		fmt.Fprintln(os.Stderr, "server: it is for the fire lab to start")
		os.Exit(2)
	}
}
