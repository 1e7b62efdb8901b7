package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// standIn runs the program of a command as the part that copies: its
// environment contains the address to listen on and the target of the
// connections.
func standIn(ctx context.Context, command, listen, to string, stdin io.Reader, stdout io.Writer) (err error) {
	address, err := free(ctx, listen)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(listen) // as it was given: 0.0.0.0 is [::] in the other
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The program replaces the shell, and so it is the process whose processor
	// time is reported.
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+command)
	cmd.Env = append(os.Environ(), "HOST="+host, "PORT="+port, "TO="+to)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	in, err := cmd.StdinPipe() // open for as long as it runs: some programs end with it
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state contains the same
		cancel(fmt.Errorf("%w: %s: %v", errEnded, command, cmd.ProcessState))
	}()
	defer func() {
		cancel(nil)
		<-ended
		_ = in.Close() // nobody reads it any more
	}()
	if err := reached(ctx, net.JoinHostPort("127.0.0.1", port)); err != nil {
		return err
	}
	used := func() time.Duration {
		d, _ := harness.ProcessorOf(cmd.Process.Pid)
		return d
	}
	return tell(address, used, stdin, stdout)
}

// errEnded ends the wait for a program that has ended.
var errEnded = errors.New("the program in the place of the copy has ended")

// free returns an address on which nobody listens, with a port where the one
// that is given leaves it open.
func free(ctx context.Context, listen string) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// reached returns when somebody accepts connections, or why nobody does.
func reached(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	for again := time.NewTicker(10 * time.Millisecond); ; {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
