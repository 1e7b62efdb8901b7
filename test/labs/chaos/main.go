// Chaos is the fire lab: real candidates, each a process behind its own proxy,
// on real servers, by a random schedule of faults, and a judge that knows
// nothing but the guarantees of docs/reference/protocol.md. See docs/evidence/chaos.md.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
