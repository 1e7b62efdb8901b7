package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
)

// Swap implements [base.System] by one script, and so one round trip. Right
// after a server's start, or SCRIPT FLUSH, the first of them takes two.
func (s source) Swap(ctx context.Context, w store.Write) (uint64, error) {
	t := &ticket{expected: strconv.FormatUint(w.Expected, 10)}
	// The value is a copy: the call may be given up before it is sent.
	args := []any{t, state(w), string(w.Value), s.channel(w.Key)}
	var got verdict
	err := s.await(ctx, func(ctx context.Context) (err error) {
		got, err = s.ask(ctx, t, w.Key, args)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("key %q: %w", w.Key, t.failure(err))
	}
	return s.applied(w, t, got)
}

// applied reads the script's verdict.
func (s source) applied(w store.Write, t *ticket, got verdict) (uint64, error) {
	again := t.sent() > 1
	switch {
	case got.word == applied:
		if got.untold != "" {
			s.untold.Do(func() {
				s.opts.Logger.Warn("writes are not published: those who watch find them by looking", "err", got.untold)
			})
		}
		if got.short != nil {
			return 0, fmt.Errorf("%w: key %q was written at revision %s: %w", store.ErrUnknown, w.Key, got.detail, got.short)
		}
		rev, err := strconv.ParseUint(got.detail, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: key %q: the server returned the revision %q", store.ErrUnknown, w.Key, got.detail)
		}
		return rev, nil
	case again:
		return 0, fmt.Errorf("%w: key %q: the client sent the write more than once, and its last attempt ended: %s %s",
			store.ErrUnknown, w.Key, got.word, got.detail)
	case got.word == conflict:
		return 0, fmt.Errorf("%w: key %q has revision %s, not %d", store.ErrConflict, w.Key, got.detail, w.Expected)
	default:
		return 0, fmt.Errorf("%w: key %q%s: %s", classifyScript(got.detail), w.Key, explain(codeOf(got.detail)), got.detail)
	}
}

// A verdict is the answer of the script.
type verdict struct {
	word, detail, untold string
	short                error // too few replicas have it
}

// ask has the script run: by its name, and if the server does not know that, by
// its text.
func (c *client) ask(ctx context.Context, t *ticket, key string, args []any) (verdict, error) {
	n, err := c.node(ctx, key)
	if err != nil {
		return verdict{}, err
	}
	got, err := c.run(ctx, n, "evalsha", c.swap.name, key, args)
	if code(err) == "NOSCRIPT" {
		t.refused()
		return c.run(ctx, n, "eval", c.swap.text, key, args)
	}
	return got, err
}

// run runs a script, without a repetition by the client.
func (c *client) run(ctx context.Context, n node, command, text, key string, args []any) (verdict, error) {
	cmd := once{redis.NewCmd(ctx, append([]any{command, text, 1, c.name(key)}, args...)...)}
	short := c.send(ctx, n, cmd)
	said, err := cmd.StringSlice()
	if err != nil {
		return verdict{}, err
	}
	got := verdict{short: short}
	for i, part := range []*string{&got.word, &got.detail, &got.untold} {
		if i < len(said) {
			*part = said[i]
		}
	}
	if got.word != applied && got.word != conflict && got.word != refused && got.word != shown && got.word != absent {
		return verdict{}, fmt.Errorf("the server answers the script with %q", said)
	}
	return got, nil
}

// once is a command that the client does not repeat, whatever its MaxRetries:
// the repetition of a write whose answer was lost would conflict with that
// write, and a caller that gets a conflict believes that nothing was applied.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// A ticket is the argument of a write that knows whether the write left: the
// client asks for its bytes when it writes the command to a connection.
type ticket struct {
	expected string

	mu    sync.Mutex
	times int // that it left and was not refused
	void  bool
}

// MarshalBinary implements [encoding.BinaryMarshaler].
func (t *ticket) MarshalBinary() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.void {
		return nil, errGivenUp
	}
	t.times++
	return []byte(t.expected), nil
}

// refused takes back the last time: the server answered that it did nothing.
func (t *ticket) refused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times--
}

func (t *ticket) sent() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times
}

// failure classifies a call that ended without an answer of the script. It lets
// the write leave no more.
func (t *ticket) failure(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.void = true
	switch {
	case t.times == 0:
		return fmt.Errorf("%w: the write was not sent: %w", classifyRead(err), err)
	case t.times == 1 && refusal(code(err)) != nil:
		return fmt.Errorf("%w: the write was refused%s: %w", refusal(code(err)), explain(code(err)), err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
}
