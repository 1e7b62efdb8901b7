package arena

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A Right is something that the candidates may be denied, in the words of a
// server's configuration.
type Right struct{ verb, subject string }

// Rights are those that candidates use.
var Rights = []Right{
	{"publish", stored + Group},                        // to write the record
	{"publish", "$JS.API.DIRECT.GET." + stream + ".>"}, // to read it
	{"subscribe", republic + ">"},                      // to hear of it
}

// denied is also denied to the candidates, so that a server shows which
// configuration it has.
const denied = "fire.denied"

// credentials is the servers' configuration of users. A client that names no
// user is the lab.
func credentials(users ...string) string {
	users = append(users, `{user: lab, password: lab}`)
	return "authorization { users: [" + strings.Join(users, ", ") + "] }\nno_auth_user: lab\n" +
		fmt.Sprintf("accounts { $SYS { users: [{user: %s, password: %s}] } }", system, system)
}

// candidates are the users of the candidates. One of them, or all, lack some
// rights.
func (a *Arena) candidates(who string, without ...Right) []string {
	denials := map[string][]string{}
	if len(without) > 0 {
		without = append(without, Right{"publish", denied})
	}
	for _, r := range without {
		denials[r.verb] = append(denials[r.verb], strconv.Quote(r.subject))
	}
	var permissions []string
	for verb, subjects := range denials {
		permissions = append(permissions, fmt.Sprintf("%s: { deny: [%s] }", verb, strings.Join(subjects, ", ")))
	}
	users := make([]string, len(a.users))
	for i, user := range a.users {
		lacks := ""
		if who == Everybody || who == user {
			lacks = strings.Join(permissions, ", ")
		}
		users[i] = fmt.Sprintf("{user: %s, password: %s, permissions: { %s }}", user, Password, lacks)
	}
	return users
}

// Authorize has the servers let the candidates in, with all rights, or not.
func (a *Arena) Authorize(valid bool) {
	if valid {
		a.configure(credentials(a.candidates(Everybody)...))
	} else {
		a.configure(credentials())
	}
}

// Deny has the servers deny one of the users, or [Everybody], some rights,
// until Authorize.
func (a *Arena) Deny(who string, rights ...Right) {
	a.configure(credentials(a.candidates(who, rights...)...))
}

func (a *Arena) configure(users string) {
	for _, n := range a.Servers.Nodes {
		n.Configure(users)
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

// Canaries are connections with a candidate's credentials, one to each server.
type Canaries []*nats.Conn

// Canaries connects to each server as one of the users.
func (a *Arena) Canaries(user string) (all Canaries) {
	for _, n := range a.Servers.Nodes {
		all = append(all, natslab.Connect(a, n.URL(), nats.UserInfo(user, Password), nats.IgnoreDiscoveredServers(), nats.IgnoreAuthErrorAbort()))
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

// Denied returns a check that fails unless all lack rights, or none does.
func (all Canaries) Denied(want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for _, c := range all {
			before := c.LastError()
			err := c.Publish(denied, nil)
			if err == nil {
				err = c.FlushWithContext(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.Opts.Url, err)
			}
			//nolint:errorlint // the same value again is the report of an earlier denial
			if got := c.LastError() != before; got != want {
				return fmt.Errorf("%s: denied %v", c.Opts.Url, got)
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
