package proofs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store"
)

// SignCommand signs a statement as it is given.
type SignCommand struct {
	Group     string        `arg:"" help:"The group."`
	Key       string        `required:"" type:"existingfile" placeholder:"FILE" help:"The private key of the group: PEM, or the seed of an nkey."`
	ID        string        `name:"id" env:"LEADER_ID" placeholder:"NAME" help:"The leader's name. Required."`
	Term      uint64        `required:"" env:"LEADER_TERM" placeholder:"N" help:"The number of the term."`
	TermToken string        `env:"LEADER_TOKEN" placeholder:"TOKEN" help:"The term's token; - reads it from the standard input. Required. Best given as LEADER_TOKEN: what is on a command line, other users see."`
	Audience  string        `placeholder:"NAME" help:"Whom the proof is for. Without, it is for everyone."`
	For       time.Duration `default:"10s" placeholder:"TIME" help:"How long it is good for, from now on."`
}

// Help describes the command.
func (SignCommand) Help() string {
	return `Signs a proof that NAME leads the group in a term, and prints it: a JWT (EdDSA), which leader token verify --offline judges, and so does a JWT library of
any language. It has the digest of the token and not the token.

It signs without checking the claim: use it in tests, or when you already know that it is true. The proofs of leader run --proof-key and of
package proof also end with the leader's trust window.

Exit status: 0; 1 if it cannot be signed; 2 wrong usage.

Examples:
  LEADER_TOKEN=any leader token sign reports --key a.pem --id me --term 7
  leader token sign reports --key reports.pem --audience archive --for 1m`
}

// Validate checks what the parser cannot.
func (c SignCommand) Validate() error {
	var errs []error
	if !store.ValidKey(c.Group) {
		errs = append(errs, fmt.Errorf("%q: no group has this name", c.Group))
	}
	if c.ID == "" || c.TermToken == "" {
		errs = append(errs, errors.New("--id and --term-token: are required (LEADER_ID, LEADER_TOKEN)"))
	}
	if c.Term == 0 {
		errs = append(errs, errors.New("--term 0: must be positive"))
	}
	if c.For < time.Millisecond {
		errs = append(errs, fmt.Errorf("--for %v: must be 1ms or more", c.For))
	}
	return errors.Join(errs...)
}

// Run signs it.
func (c SignCommand) Run(std app.Streams) error {
	token, err := TermToken(c.TermToken, std.In)
	if err != nil {
		return err
	}
	key, err := proof.ReadKey(c.Key)
	if err != nil {
		return err
	}
	now := time.Now()
	text, err := key.Sign(proof.Statement{
		Group: c.Group, Leader: c.ID, Term: c.Term, Digest: fence.Digest(token), Audience: c.Audience, Issued: now, Until: now.Add(c.For),
	})
	if errors.Is(err, proof.ErrInvalid) {
		return fmt.Errorf("%w: %w", app.ErrUsage, err)
	}
	if err == nil {
		_, err = fmt.Fprintln(std.Out, text)
	}
	return err
}

// maxLine is more than any token or proof has.
const maxLine = 2 * proof.MaxSize

// TermToken returns the value of --term-token, which may be on the standard
// input.
func TermToken(value string, in io.Reader) (string, error) {
	if value != "-" {
		return value, nil
	}
	return line("--term-token -", "token", in)
}

// line reads the first line of the standard input.
func line(flag, what string, in io.Reader) (string, error) {
	s, err := bufio.NewReader(io.LimitReader(in, maxLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	if s = strings.TrimSpace(s); s == "" {
		return "", fmt.Errorf("%w: %s: the standard input has no %s", app.ErrUsage, flag, what)
	}
	return s, nil
}
