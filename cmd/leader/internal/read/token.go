package read

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// TokenCommand is the family of the commands about tokens.
type TokenCommand struct {
	Verify VerifyCommand `cmd:"" help:"Ask whether a term and its token are current."`
}

// VerifyCommand compares a term and a token with the record.
type VerifyCommand struct {
	app.Target
	output.Format

	Group     string `arg:"" help:"The group."`
	Term      uint64 `required:"" env:"LEADER_TERM" placeholder:"N" help:"The number of the term."`
	TermToken string `env:"LEADER_TOKEN" placeholder:"TOKEN" help:"The term's token; - reads it from the standard input. Best given as LEADER_TOKEN: what is on a command line, other users see."`
}

// Help says what the command does.
func (VerifyCommand) Help() string {
	return `Asks whether a term is the one in the group's record and, if a token is given, whether it is that term's. Within leader run, the
environment has both. It prints a word:

  current   the record's term, and its token
  stale     a later term has begun, or the term has ended and nobody has
            followed yet
  unknown   the record is of an earlier term: it was read from a server
            that lags, or there never was such a term
  mismatch  the term is the record's and the token is not

It reads, and what is read may be late by now: current means that no later term had begun when the record was read. A resource that must turn stale
leaders away compares the terms itself (package fence); a leader that must be sure of itself calls ValidateToken. Tokens are never printed.

With -o json there is one object: group, term, verdict, leader, current_term.

Exit status: 0 current; 1 anything else; 4 if the group does not exist; 5 if the bucket is missing or may not be read; 6 if the server did not
answer in time.

Examples:
  leader token verify reports --term 1795212020510115
  leader token verify reports --term 1795212020510115 --term-token - < token
  leader run reports -- sh -c 'leader token verify reports && act'`
}

// Validate checks what the parser cannot.
func (c VerifyCommand) Validate() error { return errors.Join(c.Target.Validate(), validGroup(c.Group)) }

// A Verdict is what verify prints, as JSON.
type Verdict struct {
	Group   string `json:"group"`
	Term    uint64 `json:"term"`
	Verdict string `json:"verdict"` // current, stale, unknown or mismatch
	// Leader and CurrentTerm are those of the record; without a leader it is
	// the last term.
	Leader      string `json:"leader,omitempty"`
	CurrentTerm uint64 `json:"current_term"`
}

// Run verifies the token.
func (c VerifyCommand) Run(ctx context.Context, std app.Streams) error {
	token, err := c.token(std.In)
	if err != nil {
		return err
	}
	s, err := c.Open("token verify")
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Store()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	v, err := c.judge(ctx, s, st, token)
	if err != nil {
		return err
	}
	if err := c.print(std.Out, v); err != nil {
		return err
	}
	if v.Verdict != "current" {
		return &app.ExitError{Code: app.ExitFailure}
	}
	return nil
}

// maxToken is more than any token has.
const maxToken = 4 << 10

func (c VerifyCommand) token(in io.Reader) (string, error) {
	if c.TermToken != "-" {
		return c.TermToken, nil
	}
	line, err := bufio.NewReader(io.LimitReader(in, maxToken)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("--term-token -: %w", err)
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("%w: --term-token -: the standard input has no token", app.ErrUsage)
	}
	return line, nil
}

// judge reads the record and compares.
func (c VerifyCommand) judge(ctx context.Context, s *app.Session, st store.Store, token string) (Verdict, error) {
	entry, err := st.Get(ctx, c.Group)
	if err != nil {
		return Verdict{}, err
	}
	if entry.Revision == 0 {
		return Verdict{}, noGroup(c.Group, s.Bucket)
	}
	r := inspect.ReadRecord(entry)
	v := Verdict{Group: c.Group, Term: c.Term, Leader: r.ID, CurrentTerm: r.Term}
	switch {
	case c.Term < v.CurrentTerm, c.Term == v.CurrentTerm && r.ID == "":
		v.Verdict = "stale"
	case c.Term > v.CurrentTerm:
		v.Verdict = "unknown"
	case token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(r.Token)) == 0:
		v.Verdict = "mismatch"
	default:
		v.Verdict = "current"
	}
	return v, nil
}

func (c VerifyCommand) print(w io.Writer, v Verdict) error {
	if c.Output == "json" || c.Output == "yaml" {
		return c.Write(w, output.Result{Value: v})
	}
	s := v.Verdict
	if c.Output != "name" {
		s += ": " + v.describe()
	}
	_, err := fmt.Fprintln(w, output.Printable(s))
	return err
}

func (v Verdict) describe() string {
	if v.Leader == "" {
		return fmt.Sprintf("nobody leads %s, and its last term was %d", v.Group, v.CurrentTerm)
	}
	return fmt.Sprintf("%s leads %s in term %d", v.Leader, v.Group, v.CurrentTerm)
}
