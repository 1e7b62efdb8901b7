package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// A Child is this very program in a separate process, which plays the part that
// its arguments name. It ends with its standard input, so that it does not
// outlive its parent: see [Serve].
type Child struct {
	// In is its standard input, and Out its standard output.
	In  io.WriteCloser
	Out *bufio.Reader

	cmd *exec.Cmd
}

// StartChild starts this program with other arguments. It is killed when ctx
// ends.
func StartChild(ctx context.Context, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Stderr = os.Stderr
	if c.In, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A separate pipe: Wait closes the pipe of StdoutPipe, so unread output of
	// a killed child would be lost.
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.Out, c.cmd.Stdout = bufio.NewReader(out), in
	if err := errors.Join(c.cmd.Start(), in.Close()); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return c, nil
}

// StartPart is [StartChild] with the name of a part and, as JSON, what the part
// needs to know.
func StartPart(ctx context.Context, name string, role any) (*Child, error) {
	b, err := json.Marshal(role)
	if err != nil {
		return nil, err
	}
	return StartChild(ctx, name, string(b))
}

// Hear waits for a line of JSON from the child, and decodes it into v.
func (c *Child) Hear(v any) error {
	line, err := c.Out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the process %q prints nothing: %w", c.cmd.Args[1:], err)
	}
	return json.Unmarshal(line, v)
}

// Signal sends the child a signal.
func (c *Child) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// PID returns the number of the child's process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Kill ends the child without a warning.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()         // its error reports the kill
	_ = c.In.Close()
}

// End asks the child to end, and returns when it has. Output that it prints
// until then must be read meanwhile, if a pipe does not hold it.
func (c *Child) End() error {
	_ = c.In.Close()
	return c.cmd.Wait()
}

// Serve is the child's part: it sends v to the parent, and returns when the
// parent asks it to end, or has ended itself.
func Serve(stdin io.Reader, stdout io.Writer, v any) error {
	if err := json.NewEncoder(stdout).Encode(v); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, stdin)
	return err
}

// A Speaker writes a child's events to its parent, a line of JSON each. It is
// safe for concurrent use.
type Speaker struct {
	mu  sync.Mutex
	out *json.Encoder
}

// NewSpeaker returns one that writes to the child's standard output.
func NewSpeaker(stdout io.Writer) *Speaker { return &Speaker{out: json.NewEncoder(stdout)} }

// Say writes v. It returns no error, since the end of standard input shows a
// child that its parent is gone.
func (s *Speaker) Say(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(v) //nolint:errchkjson // v is a value of the lab's own
}
