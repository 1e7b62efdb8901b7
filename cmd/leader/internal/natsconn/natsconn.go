// Package natsconn connects the commands to NATS as the nats command does: by
// flags, by NATS_* variables, or by one of the contexts that nats context add
// writes, which package contexts reads.
package natsconn

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
)

// ErrContext means that the named context does not exist or cannot be used.
var ErrContext = errors.New("nats context")

// Flags contain the server's address and the user. They travel to the demo's
// workers as JSON, over a pipe.
type Flags struct {
	Server      string `short:"s" env:"NATS_URL" placeholder:"URL" help:"The NATS server to connect to." json:"server,omitempty"`
	Context     string `env:"NATS_CONTEXT" placeholder:"NAME" help:"The context of the nats command to connect with." json:"context,omitempty"`
	User        string `env:"NATS_USER" placeholder:"USER" help:"User name." json:"user,omitempty"`
	Password    string `env:"NATS_PASSWORD" placeholder:"PASSWORD" help:"Password; best given as NATS_PASSWORD." json:"password,omitempty"`
	Token       string `env:"NATS_TOKEN" placeholder:"TOKEN" help:"Token of the connection; best given as NATS_TOKEN." json:"token,omitempty"`
	Creds       string `env:"NATS_CREDS" type:"existingfile" placeholder:"FILE" help:"Credentials file." json:"creds,omitempty"`
	NKey        string `name:"nkey" env:"NATS_NKEY" type:"existingfile" placeholder:"FILE" help:"NKey seed file." json:"nkey,omitempty"`
	TLSCert     string `name:"tlscert" env:"NATS_CERT" type:"existingfile" placeholder:"FILE" help:"TLS certificate of the client." json:"tlscert,omitempty"`
	TLSKey      string `name:"tlskey" env:"NATS_KEY" type:"existingfile" placeholder:"FILE" help:"Its private key." json:"tlskey,omitempty"`
	TLSCA       string `name:"tlsca" env:"NATS_CA" type:"existingfile" placeholder:"FILE" help:"TLS authority to trust." json:"tlsca,omitempty"`
	TLSFirst    bool   `name:"tlsfirst" env:"NATS_TLS_FIRST" help:"Begin with TLS, before the server's greeting." json:"tlsfirst,omitempty"`
	Domain      string `name:"js-domain" env:"NATS_JS_DOMAIN" placeholder:"DOMAIN" help:"The JetStream domain of the bucket." json:"domain,omitempty"`
	InboxPrefix string `env:"NATS_INBOX_PREFIX" placeholder:"PREFIX" help:"Prefix of the subjects of replies." json:"inbox_prefix,omitempty"`
}

// Given reports whether the flags, or the environment in their place, name a
// server.
func (f Flags) Given() bool { return f.Server != "" || f.Context != "" }

// The variables that name a server.
const (
	envServer  = "NATS_URL"
	envContext = "NATS_CONTEXT"
)

// Typed reports whether the command line itself names a server. A server that
// the environment names, too, counts as the environment's.
func (f Flags) Typed(env environ.Env) bool {
	return f.Server != "" && f.Server != env.Get(envServer) ||
		f.Context != "" && f.Context != env.Get(envContext)
}

// Exported returns the variables of the environment that name a server.
func Exported(env environ.Env) (names []string) {
	for _, name := range []string{envServer, envContext} {
		if env.Get(name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// Settings are what a connection and the elections on it need.
type Settings struct {
	URL    string
	Domain string // the JetStream domain, if the flags or the context name one
	// APIPrefix is in place of $JS.API where the context names one, as for a
	// bucket that another account exports.
	APIPrefix string
	Options   []nats.Option
}

// Connect connects under a name. The connection reconnects for ever, and
// quickly, also when its server has been silent for half a minute.
func (s Settings) Connect(name string, opts ...nats.Option) (*nats.Conn, error) {
	all := []nats.Option{
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // the credentials may be renewed
		nats.ReconnectWait(reconnectDelay),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		// A server that vanishes without closing the connection, as a machine
		// without power does, is noticed by unanswered pings alone. The third
		// ping finds two of them, within half a minute. By default that takes
		// six minutes, in which an observer takes every leader for silent.
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		// The default prints to the standard error, across whatever is shown.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	all = append(append(all, s.Options...), nats.Name(name))
	nc, err := nats.Connect(s.URL, append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", Redacted(s.URL), withoutURL(err))
	}
	return nc, nil
}
