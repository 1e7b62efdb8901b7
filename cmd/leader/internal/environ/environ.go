// Package environ passes the environment of a command as a value, so that each
// call of the command in one process can have its own.
package environ

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// An Env looks a variable up. [os.LookupEnv] is the Env of a process, and nil
// has no variables.
//
// Libraries read some variables of the process by themselves: XDG_CONFIG_HOME,
// where the contexts of the nats command are, COLUMNS, by which help is wrapped,
// and the credentials for stores other than NATS. Programs that a command starts
// inherit the environment of the process.
type Env func(name string) (value string, set bool)

// Get returns the value of a variable, "" if it is not set.
func (e Env) Get(name string) string {
	if e == nil {
		return ""
	}
	value, _ := e(name)
	return value
}

// Apply makes the Env an option of the parser: flags with a tag env take their
// values from it, and no longer from the process, and hooks and commands may
// take an Env.
func (e Env) Apply(parser *kong.Kong) error {
	return errors.Join(
		kong.Bind(e).Apply(parser),
		kong.WithBeforeReset(detach).Apply(parser),
		kong.WithBeforeResolve(e.fill).Apply(parser),
		kong.ValueFormatter(help).Apply(parser),
	)
}

// detach keeps the parser from looking variables up by itself. Flag.Envs still
// has their names.
func detach(at *kong.Path) error {
	for _, flag := range at.Flags {
		flag.Tag.Envs = nil
	}
	return nil
}

// fill sets the flags whose variables are set. It runs where the parser would
// set them: after the defaults and before the command line.
func (e Env) fill(at *kong.Path) error {
	if e == nil {
		return nil
	}
	for _, flag := range at.Flags {
		for _, name := range flag.Envs {
			value, set := e(name)
			if !set {
				continue
			}
			token := kong.Token{Type: kong.FlagValueToken, Value: value}
			if err := flag.Parse(kong.ScanFromTokens(token), flag.Target); err != nil {
				return fmt.Errorf("%w (from envar %s=%q)", err, name, value)
			}
			break
		}
	}
	return nil
}

// help returns the help of a flag or an argument.
func help(v *kong.Value) string {
	if v.Flag == nil {
		return v.Help
	}
	return Help(v.Flag)
}

// Help returns the help of a flag, with its environment variables.
func Help(f *kong.Flag) string {
	if len(f.Envs) == 0 {
		return f.Help
	}
	return strings.TrimSuffix(f.Help, ".") + " ($" + strings.Join(f.Envs, ", $") + ")."
}
