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

// A Child is this very program in a process of its own, which plays the part
// that its arguments name. It ends with its standard input, so that none
// outlives its parent: see [Serve].
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
	// A pipe of our own: Wait closes that of StdoutPipe, and what a child that
	// was killed had said before was lost with it, unless it was read already.
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
		return fmt.Errorf("the process %q says nothing: %w", c.cmd.Args[1:], err)
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
	_ = c.cmd.Wait()         // says that it was killed
	_ = c.In.Close()
}

// End asks the child to end, and returns when it has. What it prints until then
// must be read meanwhile, if a pipe does not hold it.
func (c *Child) End() error {
	_ = c.In.Close()
	return c.cmd.Wait()
}

// Serve is the child's part: it tells the parent v, and returns when the parent
// asks it to end, or has ended itself.
func Serve(stdin io.Reader, stdout io.Writer, v any) error {
	if err := json.NewEncoder(stdout).Encode(v); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, stdin)
	return err
}

// A Speaker is where a child tells its parent what happens, a line of JSON each.
// It is safe for concurrent use.
type Speaker struct {
	mu  sync.Mutex
	out *json.Encoder
}

// NewSpeaker returns one that writes to the child's standard output.
func NewSpeaker(stdout io.Writer) *Speaker { return &Speaker{out: json.NewEncoder(stdout)} }

// Say tells v. It returns no error, since the end of standard input tells a
// child that its parent is gone.
func (s *Speaker) Say(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(v) //nolint:errchkjson // v is a value of the lab's own
}
