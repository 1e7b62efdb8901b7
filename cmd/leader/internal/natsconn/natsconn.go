// Package natsconn connects the commands to NATS, as the nats command does: by a URL, or
// by one of the contexts that nats context add writes.
package natsconn

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
)

// ErrContext says that the named context does not exist or cannot be used.
var ErrContext = errors.New("nats context")

// Flags say where the server is. They travel to the demo's workers as JSON.
type Flags struct {
	Server  string `short:"s" env:"NATS_URL" placeholder:"URL" help:"The NATS server to connect to." json:"server,omitempty"`
	Context string `env:"CONTEXT,NATS_CONTEXT" placeholder:"NAME" help:"The context of the nats command to connect with." json:"context,omitempty"`
}

// Given reports whether the flags name a server.
func (f Flags) Given() bool { return f.Server != "" || f.Context != "" }

// Settings are what a connection and the elections on it need.
type Settings struct {
	URL     string
	Domain  string // the JetStream domain, if the context names one
	Options []nats.Option
}

// Settings reads the context, if one is named. A server given besides replaces that of the context.
func (f Flags) Settings() (Settings, error) {
	s := Settings{URL: f.Server}
	if f.Context == "" {
		return s, nil
	}
	if !natscontext.IsKnown(f.Context) {
		return s, fmt.Errorf("%w %q is not known (known: %s)", ErrContext, f.Context, known())
	}
	c, err := natscontext.New(f.Context, true)
	if err != nil {
		return s, fmt.Errorf("%w %q: %w", ErrContext, f.Context, err)
	}
	if s.Options, err = c.NATSOptions(); err != nil {
		return s, fmt.Errorf("%w %q: %w", ErrContext, f.Context, err)
	}
	if s.URL == "" {
		s.URL = c.ServerURL()
	}
	s.Domain = c.JSDomain()
	return s, nil
}

func known() string {
	if names := natscontext.KnownContexts(); len(names) > 0 {
		return strings.Join(names, ", ")
	}
	return "none; nats context add makes one"
}

// Connect connects under a name. The connection reconnects for ever, and quickly.
func (s Settings) Connect(name string, opts ...nats.Option) (*nats.Conn, error) {
	all := []nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		// The default prints to the standard error, across whatever is shown.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	all = append(append(all, s.Options...), nats.Name(name))
	nc, err := nats.Connect(s.URL, append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", redacted(s.URL), err)
	}
	return nc, nil
}
