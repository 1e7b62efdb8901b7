// Package contexts reads the contexts that nats context add writes. The library
// for them links nats-server, so that main alone imports this package: see
// app.Kit.
package contexts

import (
	"fmt"
	"strings"

	"github.com/nats-io/jsm.go/natscontext"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
)

// Settings reads the context, if one is named or, without a server, selected.
// Further flags take precedence over its settings.
func Settings(f natsconn.Flags) (natsconn.Settings, error) {
	name := f.Context
	switch {
	case name != "" && !natscontext.IsKnown(name):
		return natsconn.Settings{}, fmt.Errorf("%w %q is not known (known: %s)", natsconn.ErrContext, name, known())
	case name == "" && f.Server == "":
		name = natscontext.SelectedContext()
	}
	c, err := natscontext.New(name, name != "",
		natscontext.WithServerURL(f.Server), natscontext.WithUser(f.User), natscontext.WithPassword(f.Password),
		natscontext.WithToken(f.Token), natscontext.WithCreds(f.Creds), natscontext.WithNKey(f.NKey),
		natscontext.WithCertificate(f.TLSCert), natscontext.WithKey(f.TLSKey), natscontext.WithCA(f.TLSCA),
		natscontext.WithJSDomain(f.Domain), natscontext.WithInboxPrefix(f.InboxPrefix), tlsFirst(f),
	)
	if err != nil {
		return natsconn.Settings{}, fmt.Errorf("%w %q: %w", natsconn.ErrContext, name, err)
	}
	opts, err := c.NATSOptions()
	if err != nil {
		return natsconn.Settings{}, fmt.Errorf("%w %q: %w", natsconn.ErrContext, name, err)
	}
	if c.JSEventPrefix() != "" {
		return natsconn.Settings{}, fmt.Errorf("%w %q: jetstream_event_prefix %q has no effect: no command reads events of JetStream; take it out",
			natsconn.ErrContext, name, c.JSEventPrefix())
	}
	if c.JSDomain() != "" && c.JSAPIPrefix() != "" {
		return natsconn.Settings{}, fmt.Errorf("%w %q: jetstream_api_prefix %q and domain %q: only one of them may be given",
			natsconn.ErrContext, name, c.JSAPIPrefix(), c.JSDomain())
	}
	return natsconn.Settings{URL: c.ServerURL(), Domain: c.JSDomain(), APIPrefix: strings.TrimSuffix(c.JSAPIPrefix(), "."), Options: opts}, nil
}

// Names returns the names of the contexts.
func Names() []string { return natscontext.KnownContexts() }

func tlsFirst(f natsconn.Flags) natscontext.Option {
	if f.TLSFirst {
		return natscontext.WithTLSHandshakeFirst()
	}
	return natscontext.WithServerURL("") // changes nothing
}

func known() string {
	if names := Names(); len(names) > 0 {
		return strings.Join(names, ", ")
	}
	return "none; nats context add makes one"
}
