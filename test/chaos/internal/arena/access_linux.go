package arena

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// credentials is the servers' configuration of users. Who says nothing is the
// lab.
func credentials(valid bool) string {
	users := `{user: lab, password: lab}`
	if valid {
		users += fmt.Sprintf(`, {user: %s, password: %s}`, User, Password)
	}
	return "authorization { users: [" + users + "] }\nno_auth_user: lab\n" +
		fmt.Sprintf("accounts { $SYS { users: [{user: %s, password: %s}] } }", system, system)
}

// Authorize has the servers let the candidates in, or not.
func (a *Arena) Authorize(valid bool) {
	for _, n := range a.Servers.Nodes {
		n.Configure(credentials(valid))
	}
}

// System connects to the servers as one who may ask how they are.
func (a *Arena) System() *nats.Conn {
	return a.Servers.Connect(a, nats.UserInfo(system, system))
}

// Client is a connection of the lab to one server and no other.
func (a *Arena) Client(node *natslab.Process) *nats.Conn {
	return natslab.Connect(a, node.URL(), nats.IgnoreDiscoveredServers())
}

// Canaries are connections with the candidates' credentials, one to each
// server.
type Canaries []*nats.Conn

// Canaries connects to each server as the candidates do.
func (a *Arena) Canaries() (all Canaries) {
	for _, n := range a.Servers.Nodes {
		all = append(all, natslab.Connect(a, n.URL(), nats.UserInfo(User, Password), nats.IgnoreDiscoveredServers(), nats.IgnoreAuthErrorAbort()))
	}
	return all
}

// Connected returns a check that fails unless all are connected, or none is.
func (all Canaries) Connected(want bool) func(context.Context) error {
	return func(context.Context) error {
		for _, c := range all {
			if c.IsConnected() != want {
				return fmt.Errorf("%s: connected %v", c.Opts.Url, c.IsConnected())
			}
		}
		return nil
	}
}

// Close closes all of them.
func (all Canaries) Close() {
	for _, c := range all {
		c.Close()
	}
}
