package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// A reader is what a Feed has of a client that cannot listen.
type reader struct{ *client }

// source is what a Feed has of one that can.
type source struct{ reader }

var _ feed.Follower = source{}

// Read implements [feed.Source]. It is a look by the clock, for which nobody
// waits but a watch that begins, and so the time to see to the session.
func (s reader) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	if keys == nil {
		keys = []string{}
	}
	after := s.warm
	if ctx.Value(awaited{}) != nil {
		after = nil
	}
	return s.entries(ctx, after, s.read, keys)
}

// List implements [feed.Source]. It reads all keys that begin as the pattern
// does, which the table's index finds: keys are ordered by their bytes, and no
// byte of a key is as large as a tilde.
func (s reader) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	from := base.Literal(pattern)
	return s.entries(ctx, nil, s.list, from, from+"~")
}

// A connection that brings no notification for so long is asked whether it is
// still there, and has so long to answer. TCP itself would take minutes to
// notice.
const (
	silence = 2 * time.Second
	answer  = 3 * time.Second
)

// probe begins the payload of a notification by which its sender only checks
// that it hears its own notifications. No key has this prefix.
const probe = " probe "

// errDeaf: what was notified did not arrive.
var errDeaf = errors.New("notifications do not arrive on a connection that listens: is there a pooler in transaction mode between? " +
	"Let the store connect past it, or in session mode")

// Follow implements [feed.Follower]: it listens on a separate connection. Where
// it heard nothing before, it waits first: a stalled server is heard again
// soon, but a pooler that delivers nothing does not change.
func (s source) Follow(ctx context.Context, news *feed.News) error {
	if s.deaf > 0 {
		select {
		case <-ctx.Done():
			s.deaf = 0 // the next watch begins with news if it can
			return ctx.Err()
		case <-time.After(min(5*time.Second<<min(s.deaf-1, 8), 5*time.Minute)):
		}
	}
	conn, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer s.hangUp(conn)
	if err := s.hears(ctx, conn, news); err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // the notifications may still work
		}
		if errors.Is(err, errDeaf) {
			s.deaf++
		}
		return err
	}
	s.deaf = 0
	read, err := s.prepare(ctx, conn)
	if err != nil {
		return err
	}
	news.Begun()
	for {
		n, err := next(ctx, conn)
		if err != nil {
			return err
		}
		if n == nil {
			continue
		}
		if err := s.tell(ctx, conn, read, news, n); err != nil {
			return err
		}
	}
}

// listens begins the statement by which pg_stat_activity shows the sessions
// that listen.
const listens = "/* listens */ "

// prepare has the listening session keep the statement that reads, and returns
// its name there. Elsewhere nothing is prepared, for poolers: behind one that
// exchanges sessions no notification would have arrived here.
func (s source) prepare(ctx context.Context, conn *pgx.Conn) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	name = "leader_read_" + rand.Text() // a session may be one that somebody has used before
	if _, err := conn.Prepare(ctx, name, listens+s.read); err != nil {
		return "", fmt.Errorf("%w: table %s: %w", classifyRead(err), s.names.table, err)
	}
	return name, nil
}

// tell handles a notification, and all others that have arrived by now. It
// reads the records on the connection that brought the news: its session is
// awake, and has the statement's plan.
func (s source) tell(ctx context.Context, conn *pgx.Conn, read string, news *feed.News, n *pgconn.Notification) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	var changed []string
	// A wait that is over returns what is there.
	for err := error(nil); err == nil; n, err = conn.WaitForNotification(over) {
		if key, is := told(news, n.Payload); is && !slices.Contains(changed, key) {
			changed = append(changed, key)
		}
	}
	return news.Reread(changed, func(keys []string) ([]store.Entry, error) { return s.readOn(ctx, conn, read, keys) })
}

// readOn reads records on the connection that listens.
func (s source) readOn(ctx context.Context, conn *pgx.Conn, read string, keys []string) ([]store.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := conn.Query(ctx, read, keys)
	if err == nil {
		var entries []store.Entry
		if entries, err = collect(rows); err == nil {
			return entries, nil
		}
	}
	return nil, fmt.Errorf("%w: table %s: %w", classifyRead(err), s.names.table, err)
}

// told handles a notification, unless it names a key, which is returned. An
// empty payload means that all records may have changed.
func told(news *feed.News, payload string) (key string, is bool) {
	switch {
	case payload == "":
		news.Begun() // all is read
	case strings.HasPrefix(payload, probe):
	default:
		return payload, true
	}
	return "", false
}

// listen returns a connection, taken out of the pool, on which the table's
// channel is listened to.
func (s source) listen(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	pooled, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	conn := pooled.hijack()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.names.channel}.Sanitize(), pgx.QueryExecModeExec); err != nil {
		s.hangUp(conn)
		return nil, fmt.Errorf("%w: LISTEN: %w", classifyRead(err), err)
	}
	return conn, nil
}

// hangUp closes the connection, and waits until it is.
func (s source) hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	_ = conn.Close(ctx) // it has nothing left to lose
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// unlisten undoes LISTEN in the session of the server, which a pooler lends to
// others now: they would be sent what they do not take, and keep it. A pooler
// lends the session again that was used last, if nobody else was faster.
func (s source) unlisten(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), answer)
	defer cancel()
	_, _ = conn.Exec(ctx, "UNLISTEN "+pgx.Identifier{s.names.channel}.Sanitize(), pgx.QueryExecModeExec) // the connection ends anyway
}

// hears finds out whether a notification of another connection arrives on this
// one. Poolers that give a connection of the server to each transaction accept
// LISTEN, and then deliver nothing.
func (s source) hears(ctx context.Context, conn *pgx.Conn, news *feed.News) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	mark := probe + rand.Text()
	pooled, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	_, err = pooled.Exec(ctx, "SELECT pg_catalog.pg_notify($1, $2)", pgx.QueryExecModeExec, s.names.channel, mark)
	pooled.release()
	if err != nil {
		return fmt.Errorf("%w: NOTIFY: %w", classifyRead(err), err)
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			s.unlisten(conn)
			// It lasts until a person changes something, and does not show
			// whether the server can be reached: the reads show that.
			return fmt.Errorf("%w: %w", store.ErrPermanent, errDeaf)
		case err != nil:
			return fmt.Errorf("%w: %w", store.ErrTransient, err)
		case n.Payload == mark:
			return nil
		case news != nil:
			if key, is := told(news, n.Payload); is {
				news.Changed(key)
			}
		}
	}
}

// next returns the next notification, or nil if there was none for a while and
// the connection is sound.
func next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	quiet, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case quiet.Err() == nil || conn.IsClosed():
		return nil, fmt.Errorf("%w: %w", store.ErrTransient, err)
	}
	bounded, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	if err := conn.Ping(bounded); err != nil {
		return nil, fmt.Errorf("%w: the connection that listens does not answer: %w", store.ErrTransient, err)
	}
	return nil, nil //nolint:nilnil // silence is not an error
}
