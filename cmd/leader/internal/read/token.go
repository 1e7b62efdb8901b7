package read

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/proofs"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// TokenCommand is the family of the commands about tokens.
type TokenCommand struct {
	Verify VerifyCommand        `cmd:"" help:"Ask whether a term and its token are current, or a proof is good."`
	Keygen proofs.KeygenCommand `cmd:"" help:"Make a key that signs proofs of leadership."`
	Sign   proofs.SignCommand   `cmd:"" help:"Sign a proof of leadership."`
}

// VerifyCommand compares a term and a token with the record, or judges a proof.
type VerifyCommand struct {
	app.Target
	output.Format
	proofs.Offline

	Group     string `arg:"" help:"The group."`
	Term      uint64 `env:"LEADER_TERM" placeholder:"N" help:"The number of the term. Required without --offline."`
	TermToken string `env:"LEADER_TOKEN" placeholder:"TOKEN" help:"The term's token; - reads it from the standard input. Best given as LEADER_TOKEN: what is on a command line, other users see."`
}

// Help describes the command.
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

With --offline it judges a proof (leader token sign, leader run --proof-key, package proof) by the group's public keys, asks no server, and needs no
term. It prints a word:

  valid     one of the keys signed it, for this group and audience, and its
            time is now
  expired   it was good, and its time is over
  future    it was signed later than it is here: the clocks differ
  stale     it is good by itself, and its term is earlier than --min-term
  invalid   it is none of the group's, or for another audience

What refuses stale leaders keeps the largest term that it saw, and gives it as --min-term the next time: a leader that handed over leaves proofs
that are good by themselves for some seconds more.

With -o json there is one object: group, term, verdict, leader, current_term; of a proof also until, audience, key and why.

Exit status: 0 current, or valid; 1 anything else; 2 wrong usage; 4 if the group does not exist; 5 if the bucket is missing or may not be read; 6 if the server did not
answer in time.

Examples:
  leader token verify reports --term 1795212020510115
  leader token verify reports --term 1795212020510115 --term-token - < token
  leader run reports -- sh -c 'leader token verify reports && act'
  leader token verify reports --offline --keys reports.jwks < proof`
}

// Validate checks what the parser cannot.
func (c VerifyCommand) Validate() error {
	var err error
	if !c.Offline.Offline && c.Term == 0 {
		err = errors.New("--term: is required, and not 0")
	}
	return errors.Join(err, c.Target.Validate(), c.Offline.Validate(), app.ValidGroup(c.Group))
}

// A Verdict is what verify prints, as JSON.
type Verdict struct {
	Group string `json:"group"`
	Term  uint64 `json:"term"`
	// Verdict is current, stale, unknown or mismatch; of a proof valid,
	// expired, future, stale or invalid.
	Verdict string `json:"verdict"`
	// Leader and CurrentTerm come from the record; without a leader CurrentTerm
	// is the last term. For a proof they come from the proof, or from the
	// larger --min-term.
	Leader      string `json:"leader,omitempty"`
	CurrentTerm uint64 `json:"current_term"`
	// Until is when the proof ends, Audience its recipient, Key the id of the
	// key that signed it.
	Until    *time.Time `json:"until,omitempty"`
	Audience string     `json:"audience,omitempty"`
	Key      string     `json:"key,omitempty"`
	// Why is the reason for which a proof is refused, in words.
	Why string `json:"why,omitempty"`
}

// Run verifies the token. A verdict is printed and also decides the status,
// since scripts go by it (verify && act). Only a token that could not be judged
// is an error.
func (c VerifyCommand) Run(ctx context.Context, std app.Streams) error {
	ask := c.ask
	if c.Offline.Offline {
		ask = c.judgeProof
	}
	v, err := ask(ctx, std.In)
	if err != nil {
		return err
	}
	if err := c.print(std.Out, v); err != nil {
		return err
	}
	if v.Verdict != current && v.Verdict != proofs.Valid {
		return &app.ExitError{Code: app.ExitFailure}
	}
	return nil
}

// current is the verdict about the term of the record.
const current = "current"

// ask compares the term with the record. The token is read before the
// connection is made: who is asked for it on a terminal may take any time.
func (c VerifyCommand) ask(ctx context.Context, in io.Reader) (Verdict, error) {
	token, err := proofs.TermToken(c.TermToken, in)
	if err != nil {
		return Verdict{}, err
	}
	s, err := c.Open("token verify")
	if err != nil {
		return Verdict{}, err
	}
	defer s.Close()
	st, err := s.Store()
	if err != nil {
		return Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.judge(ctx, s, st, token)
}

// judgeProof judges a proof, without a server. For a refused proof only the
// reason is returned: its claims do not hold.
func (c VerifyCommand) judgeProof(_ context.Context, in io.Reader) (Verdict, error) {
	verdict, s, why, err := c.Judge(c.Group, in)
	v := Verdict{Group: c.Group, Verdict: verdict, CurrentTerm: c.MinTerm}
	switch {
	case err != nil:
		return v, err
	case why != nil:
		v.Why = strings.TrimPrefix(strings.TrimPrefix(why.Error(), "proof: "), verdict+": ")
		return v, nil
	}
	v.Term, v.Leader, v.CurrentTerm, v.Audience, v.Key = s.Term, s.Leader, max(s.Term, c.MinTerm), s.Audience, s.Key
	until := s.Until.UTC()
	v.Until = &until
	return v, nil
}

// judge reads the record and compares. The read may come from a replica that
// lags, so that a term above the record's is not called wrong. Tokens are
// compared in constant time, since they are secrets.
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
		v.Verdict = current
	}
	return v, nil
}

// print prints the verdict: the word first, which is all that a script needs.
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

// describe returns, for people, the basis of the verdict.
func (v Verdict) describe() string {
	switch {
	case v.Why != "":
		return v.Why
	case v.Until != nil && v.Verdict == proofs.Stale:
		return fmt.Sprintf("%s led %s in term %d, and term %d was seen", v.Leader, v.Group, v.Term, v.CurrentTerm)
	case v.Until != nil:
		return fmt.Sprintf("%s leads %s in term %d until %s", v.Leader, v.Group, v.Term, v.Until.Format("2006-01-02T15:04:05.000Z"))
	case v.Leader == "":
		return fmt.Sprintf("nobody leads %s, and its last term was %d", v.Group, v.CurrentTerm)
	}
	return fmt.Sprintf("%s leads %s in term %d", v.Leader, v.Group, v.CurrentTerm)
}
