// Package dash is leader dash: one page that shows every group of a bucket,
// live, and, if that is allowed, asks leaders to step down and pauses groups.
package dash

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

// minToken is the minimal length of a token: even the shortest would take
// forever to guess. There is no limit on how many a visitor tries.
const minToken = 16

// A Command is the command line of leader dash.
type Command struct {
	app.Target

	HTTP         string `name:"http" default:"127.0.0.1:9465" placeholder:"ADDRESS" help:"Where to serve the page."`
	AllowControl bool   `help:"Let the page ask leaders to step down and to hand over, pause groups, and drain instances."`
	DashToken    string `name:"dash-token" env:"LEADER_DASH_TOKEN" placeholder:"TOKEN" help:"What a visitor has to know, at least 16 characters; best given as LEADER_DASH_TOKEN. Required beyond loopback addresses."`
	By           string `default:"dash" placeholder:"NAME" help:"Who asks, as candidates and logs show it."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Serves one page: every group of the bucket, who leads it and since when, how long the lease is good for, and its terms. It
follows the elections live and takes no part in them; a viewer's rights suffice. The page's address is printed.

Groups in trouble come first. An open group shows its candidates, as far as they answer a roll call, and what each member
of a quorum (--store quorum://…) holds of it. It has a separate address (/?group=NAME). A leader whose record was there at
the start is "unconfirmed" until a renewal is seen, or its lease has run out: a record does not contain its age. When the command does not answer, or has lost its server, the page
shows that and greys out what it last heard.

The page shows the terms of the last day where a stream keeps a history (leader history enable makes one, and the user may
read it); otherwise those that were seen since the start of the command. The page shows which.

With --allow-control the page has buttons that ask a leader to step down or to hand over, that pause and resume a
group, and that drain and undrain a leader's instance; that takes an operator's rights. A request to leave names the term
that was on the page when the button was pressed, and no later one.

On a loopback address everybody on this machine may look (and, with --allow-control, steer). Every other address
demands --dash-token, which is asked for once and then kept as a cookie, or sent as "Authorization: Bearer TOKEN";
it is never part of a URL. Wrong tokens are logged. There is no TLS: put a proxy in front of what leaves the machine.

Exit status: 0 when interrupted, 1 no server or no address to listen on, 2 wrong usage, 5 a server without JetStream.

Examples:

  leader dash                                   and open http://127.0.0.1:9465
  leader dash --dev --allow-control             sample elections to play with
  export LEADER_DASH_TOKEN=$(openssl rand -hex 16)
  leader dash -s nats://nats:4222 --http :9465`
}

// Validate checks what the parser cannot.
func (c Command) Validate() error {
	address := web.CheckAddress("--http", c.HTTP)
	errs := []error{c.Target.Validate(), address}
	switch {
	case c.DashToken != "" && len(c.DashToken) < minToken:
		errs = append(errs, fmt.Errorf("--dash-token (%d characters): must have at least %d", len(c.DashToken), minToken))
	case c.DashToken == "" && address == nil && !web.Loopback(c.HTTP):
		errs = append(errs, fmt.Errorf("--http %s: others than this machine may reach it, which demands --dash-token", c.HTTP))
	}
	return errors.Join(errs...)
}

// Run serves until it is interrupted.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	session, err := c.Await(ctx, "dash")
	if err != nil {
		return err
	}
	defer session.Close()
	st, err := session.WholeStore()
	if err != nil {
		return err
	}
	control, err := leader.NewControlWithStore(st, c.By)
	if err != nil {
		return err
	}
	defer control.Close()
	// Ended and awaited in this order before the session is closed, whatever
	// ends Serve: those who follow use the connection until they return.
	ctx, cancel := context.WithCancel(ctx)
	b := &board.Board{}
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	s := newServer(b, session, sayer(std.Err))
	s.store = st
	// Without the flag no handler could steer, whatever a request contains.
	if c.AllowControl {
		s.control = control
	}
	// Before the board is filled, so that an address in use ends the command
	// before anything has started.
	srv, err := web.Listen(ctx, "--http", c.HTTP, s.handler(c.DashToken))
	if err != nil {
		return err
	}
	// The page shows the error, too.
	following.Go(func() {
		_ = b.Follow(ctx, st, ">", func(news board.News) {
			if news.Failed != nil {
				s.say(app.Words(news.Failed))
			}
		})
	})
	following.Go(func() { s.recall(ctx) })
	fmt.Fprintln(std.Out, srv.URL()+"/")
	return srv.Serve(ctx)
}
