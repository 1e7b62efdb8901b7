package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store"
)

// Words returns an error's text for the command line. It names flags where the
// library names fields. It leaves out the classes by which programs distinguish
// errors, since the exit status carries those. Time that is up is a timeout, as
// in the list of exit statuses.
func Words(err error) string {
	text := err.Error()
	for _, c := range configErrors(err) {
		text = strings.ReplaceAll(text, c.Error(), inFlags(c))
	}
	return strings.NewReplacer(
		leader.ErrInvalidConfig.Error()+":\n", "", leader.ErrInvalidConfig.Error()+": ", "",
		store.ErrPermanent.Error()+": ", "", store.ErrTransient.Error()+": ", "", store.ErrInvalid.Error()+": ", "",
		ErrUsage.Error()+": ", "", "BucketAutoCreate or ", "", "BucketMaxBytes or ", "",
		"bucket create --bucket ", "bucket create ", `must be one of "",`, "must be one of ",
		context.DeadlineExceeded.Error(), "timeout",
	).Replace(text)
}

// Worded returns the arguments of a format with each error in its Words.
func Worded(args []any) []any {
	worded := slices.Clone(args)
	for i, arg := range worded {
		if err, ok := arg.(error); ok {
			worded[i] = Words(err)
		}
	}
	return worded
}

// Say prints an error, each line of it under the name of the program. Text of
// others in it does not steer the terminal.
func Say(w io.Writer, err error) {
	for line := range strings.Lines(Words(err)) {
		fmt.Fprintln(w, "leader:", output.Printable(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "leader: ")))
	}
}

// configErrors returns the broken rules that an error is made of.
func configErrors(err error) (all []*leader.ConfigError) {
	switch e := err.(type) { //nolint:errorlint // the tree itself is walked
	case nil:
	case *leader.ConfigError:
		return []*leader.ConfigError{e}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, configErrors(one)...)
		}
	default:
		return configErrors(errors.Unwrap(err))
	}
	return all
}

// flagOf returns the flag that sets a field of the library's, or "".
func flagOf(field string) string {
	switch field {
	case "Bucket", "TTL", "Address", "Meta", "Priority", "By", "Why", "by":
		return "--" + strings.ToLower(field) // "by" is an argument of NewControl
	case "ConnectionParams":
		return "--connection-params"
	case "HeartbeatInterval":
		return "--heartbeat"
	case "ForeignTTL":
		return "--foreign-ttl"
	case "InstanceID":
		return "--id"
	case "HealthCheckInterval", "HealthCheckTimeout":
		return "--check-interval"
	case "Version":
		return "--program-version"
	case "VersionPolicy":
		return "--version-policy"
	case "Successor":
		return "--to"
	case "Group":
		return "group" // an argument, and --key of the demo
	}
	return ""
}

// fieldName matches whatever may be the name of a field.
var fieldName = regexp.MustCompile(`\b[A-Z]\w+\b`)

func inFlags(c *leader.ConfigError) string {
	flag := flagOf(c.Field)
	if flag == "" {
		return c.Error()
	}
	value := c.Value
	if s, ok := value.(string); ok && !strings.HasPrefix(s, "(") {
		value = fmt.Sprintf("%q", s)
	}
	rule := fieldName.ReplaceAllStringFunc(c.Rule, func(word string) string {
		if f := flagOf(word); f != "" {
			return f
		}
		return word
	})
	return fmt.Sprintf("%s %v: %s", flag, value, rule)
}

// ValidBucket returns an error if no bucket can have the name. what names the
// argument.
func ValidBucket(what, name string) error {
	if len(name) > 255 || !bucketName.MatchString(name) {
		return fmt.Errorf("%s %q: must be 1 to 255 letters, digits, dashes or underscores", what, name)
	}
	return nil
}

// bucketName: nats.go, jetstream/kv.go, validBucketRe.
var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
