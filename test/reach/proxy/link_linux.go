package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// goAlone restarts the program in a new network namespace. Other threads of
// this process would stay in the old one.
func goAlone(args []string) error {
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return fmt.Errorf("a network namespace takes the right of root: %w", err)
	}
	// By this thread, so within the namespace, where a program in the place of
	// the copy is asked by loopback whether it listens.
	if err := command(context.Background(), "ip", "link", "set", "up", "dev", "lo"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-alone" })
	return syscall.Exec(self, append([]string{os.Args[0]}, rest...), os.Environ())
}

// join joins the namespaces of two processes by a pair of interfaces, each of
// which sends at a rate. They vanish with the namespaces.
func join(ctx context.Context, link, near, far int, rate string) error {
	name := func(end int) string { return fmt.Sprintf("link%d-%d", link, end) }
	pids := map[int]string{1: strconv.Itoa(near), 2: strconv.Itoa(far)}
	if err := command(ctx, "ip", "link", "add", "name", name(1), "netns", pids[1], "type", "veth", "peer", "name", name(2), "netns", pids[2]); err != nil {
		return err
	}
	for end, pid := range pids {
		for _, line := range []string{
			fmt.Sprintf("ip addr add 10.91.%d.%d/24 dev %s", link, end, name(end)),
			"ip link set up dev " + name(end),
			// As much as one segment that the card would cut, and as long a
			// queue as TCP fills.
			fmt.Sprintf("tc qdisc add dev %s root tbf rate %s burst 256kb latency 20ms", name(end), rate),
		} {
			if err := command(ctx, "nsenter", append([]string{"-n", "-t", pid}, strings.Fields(line)...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
