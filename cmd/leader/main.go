// Command leader shows, steers and uses elections, with no code to write:
// leader demo shows a live one on a NATS server that it brings along, leader
// run keeps a program running on one of several machines, and leader ls, leader
// step-down and others are for those who operate elections. docs/cli.md
// describes them all.
//
// What is data goes to the standard output, what is prose to the standard
// error. leader --help lists the exit statuses.
package main

//go:generate go test -count=1 -run ^Test(ReferenceIsCurrent|HelpOfTheProgram)$ -update .

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr))
}
