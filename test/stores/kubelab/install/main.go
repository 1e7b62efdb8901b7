// Command install builds the kube-apiserver that the tests need into the user's
// cache. With the flag -look it builds nothing, says whether it is there (and
// fails if not), and then prints the flags with which go test runs all that
// needs it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/seed-ff2cb582/leader/test/stores/kubelab"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, flags, w io.Writer) int {
	if slices.Contains(args, "-look") {
		return look(flags, w)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := kubelab.Install(ctx, w); err != nil {
		fmt.Fprintln(w, "kubelab:", err)
		return 1
	}
	return 0
}

func look(flags, w io.Writer) int {
	path, err := kubelab.Find()
	if err != nil {
		fmt.Fprintln(w, "kubelab: SKIPPED, NOT TESTED: what needs Kubernetes:", err)
		return 1
	}
	fmt.Fprintln(w, "kubelab: what needs Kubernetes is tested on", path)
	fmt.Fprintln(flags, "-tags=kube")
	return 0
}
