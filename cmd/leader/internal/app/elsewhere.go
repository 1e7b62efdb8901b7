package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store"
)

// Registers are a store that the commands can follow.
type Registers interface {
	store.Watcher
	store.PatternWatcher
}

// onNATS returns the target with the server and the bucket that --store names,
// if it names a bucket of NATS, and with the settings of its query.
func (t Target) onNATS() (_ Target, nats bool, err error) {
	if t.Store == "" {
		return t, true, nil
	}
	u, err := url.Parse(t.Store)
	if err != nil {
		return t, false, nil //nolint:nilerr // store.Open reports what is wrong with a URL
	}
	switch strings.ToLower(u.Scheme) {
	case "nats", "tls", "ws", "wss": // what natsconn connects to
	default:
		return t, false, nil
	}
	bucket := strings.Trim(u.Path, "/")
	if bucket != "" {
		t.Bucket, t.named = bucket, bucket
	}
	if !t.Dev { // which uses no store that the environment names
		err = errors.Join(whole(t.Store, u), t.query(u.RawQuery))
	}
	u.Path, u.RawPath, u.RawQuery, u.ForceQuery = "", "", "", false
	t.Server, t.Context, t.Store = u.String(), "", ""
	return t, true, errors.Join(err, ValidBucket("--store", t.Bucket))
}

// whole refuses a URL of a bucket of which a part would be left out, as
// [store.Open] does. That part may hold secrets.
func whole(raw string, u *url.URL) error {
	switch {
	case u.Fragment != "":
		return fmt.Errorf("%w: --store: the URL's fragment, which is what follows a #: must be empty, since nothing reads it: write %%23 for a # in a name or a password", ErrUsage)
	case !strings.HasPrefix(raw[len(u.Scheme):], "://"):
		return fmt.Errorf("%w: --store: the URL: after the scheme %q come two slashes: nats://HOST[:4222]/BUCKET", ErrUsage, u.Scheme)
	}
	return nil
}

// query applies the query of a bucket's URL, as natsstore.Driver does.
// Parameters that have no effect here are refused: a program that opens the
// same URL would heed them, and the two might each elect a leader.
func (t *Target) query(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return fmt.Errorf("%w: --store: the URL's query: %w", ErrUsage, err)
	}
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "domain":
			err = replace(&t.Domain, value, "--js-domain", t.Env.Get("NATS_JS_DOMAIN"))
		case "creds":
			// The parser has made the flag's path an absolute one.
			err = replace(&t.Creds, absolute(value), "--creds", absolute(t.Env.Get("NATS_CREDS")))
		case "create", "replicas":
			err = errors.New("has no effect here: leader bucket create makes a bucket")
		default:
			err = errors.New("is unknown; known are domain, creds")
		}
		if err != nil {
			return fmt.Errorf("%w: --store: the URL's query: %s: %w", ErrUsage, name, err)
		}
	}
	return nil
}

// replace puts a value of the URL in the place of a flag's. If the command line
// itself gives both, they must be equal; a value that the environment sets for
// all commands gives way.
func replace(given *string, value, flag, exported string) error {
	switch {
	case value == "":
		return errors.New("is empty")
	case *given != "" && *given != value && *given != exported:
		return fmt.Errorf("and %s names another: %q", flag, *given)
	}
	*given = value
	return nil
}

func absolute(path string) string {
	if path == "" {
		return ""
	}
	return kong.ExpandPath(path)
}

// BeforeResolve keeps the environment. The parser calls it.
func (t *Target) BeforeResolve(env environ.Env) error {
	t.Env = env
	return nil
}

// AfterApply has a bucket that --store names take the place of --server and
// --bucket, for all that a command does with them. Another one that the command
// line itself gives is refused, and one of the environment gives way. The parser
// calls it, with what it is bound to, and with what it has parsed.
func (t *Target) AfterApply(kit Kit, line *kong.Context) error {
	given := t.Bucket
	named, nats, err := t.onNATS()
	*t = named
	t.Kit, t.typed = kit, typed(line, "bucket")
	switch {
	case t.typed && !nats && !t.Dev:
		err = errors.Join(err, errors.New("--bucket: names a NATS bucket, and --store another store, whose URL contains the place of the records"))
	case !t.typed || t.Bucket == given:
	case t.Dev: // which uses no store that the environment names
		t.Bucket = given
	default:
		err = errors.Join(err, fmt.Errorf("--store: names the bucket %q, and --bucket names another: %q", t.Bucket, given))
	}
	return err
}

// typed reports whether the command line itself has a flag, and not a variable
// or a default in its place.
func typed(line *kong.Context, flag string) bool {
	return line != nil && slices.ContainsFunc(line.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == flag })
}

// Admits returns an error if a command's argument names another bucket than
// --bucket or --store does. With --dev they name the bucket of the sample
// elections.
func (t Target) Admits(bucket string) error {
	switch {
	case t.Dev:
	case t.typed && t.Bucket != bucket:
		return fmt.Errorf("%w: bucket %q: --bucket names another: %q", ErrUsage, bucket, t.Bucket)
	case t.named != "" && t.named != bucket:
		return fmt.Errorf("%w: bucket %q: --store names another: %q", ErrUsage, bucket, t.named)
	}
	return nil
}

// OnNATS reports whether the target is a bucket of NATS.
func (t Target) OnNATS() bool {
	_, nats, _ := t.onNATS() // whichever bucket
	return nats || t.Dev
}

// openElsewhere opens a store other than a NATS bucket.
func (t Target) openElsewhere(command string) (*Session, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.Timeout)
	defer cancel()
	st, err := store.Open(ctx, t.Store, t.Kit.Drivers...)
	switch {
	case errors.Is(err, store.ErrInvalid) && t.Kit.Absent != "" && !t.Kit.knows(t.Store):
		return nil, fmt.Errorf("%w: --store: %w (%s)", ErrUsage, err, t.Kit.Absent)
	case errors.Is(err, store.ErrInvalid): // the URL, and no server was asked
		return nil, fmt.Errorf("%w: --store: %w", ErrUsage, err)
	case err != nil:
		return nil, fmt.Errorf("--store: %w", err)
	}
	registers, ok := st.(Registers)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: --store: %T cannot be watched", store.ErrPermanent, st), st.Close())
	}
	shown := shownURL(t.Store)
	s := &Session{Bucket: shown, URL: shown, Timeout: t.Timeout, command: command, elsewhere: registers}
	s.closers = append(s.closers, func() { _ = st.Close() })
	return s, nil
}

// shownURL is a store's URL without what is nobody's business: who connects,
// and parameters, among which there may be passwords. A quorum is known by its
// members, which are in its parameters.
func shownURL(rawURL string) string {
	base, query, _ := strings.Cut(rawURL, "?")
	if base != "quorum://" {
		return natsconn.Redacted(base)
	}
	var members []string
	for pair := range strings.SplitSeq(query, "&") {
		member, _ := url.PathUnescape(strings.TrimPrefix(pair, "m="))
		if name, itsURL, ok := strings.Cut(member, "="); ok {
			members = append(members, "m="+name+"="+shownURL(itsURL))
		}
	}
	return base + "?" + strings.Join(members, "&")
}

// Elsewhere returns the store of a session that is on no NATS server, and nil
// on NATS.
func (s *Session) Elsewhere() Registers { return s.elsewhere }

// Place names what holds the records, for people.
func (s *Session) Place() string {
	if s.elsewhere != nil {
		return s.URL
	}
	return fmt.Sprintf("bucket %q of %s", s.Bucket, s.URL)
}

// NeedsNATS is the error of what only NATS can do.
func (s *Session) NeedsNATS(what string) error {
	return fmt.Errorf("%w: %s needs NATS, and --store names %s", ErrUsage, what, s.URL)
}

// Connected reports whether the servers are connected, as far as the connection
// knows.
func (s *Session) Connected() bool {
	if s.elsewhere == nil {
		return s.NC.IsConnected()
	}
	c, ok := s.elsewhere.(store.ConnReporter)
	return !ok || c.ConnState() == store.Connected
}

// RollCall returns the candidates of the group that answer. Elsewhere than on
// NATS there is no way to ask, and none does.
func (s *Session) RollCall(ctx context.Context, group string) ([]rollcall.Candidate, error) {
	if s.NC == nil {
		return nil, nil
	}
	return rollcall.All(ctx, s.NC, s.Bucket, group)
}
