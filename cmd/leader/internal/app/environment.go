package app

import (
	"slices"
	"strings"
)

// credentials are the variables that let a command into the store, into the
// systems to which leaders are announced, and visitors into the page.
var credentials = []string{ //nolint:gochecknoglobals // it is constant
	"NATS_CONTEXT", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_CREDS", "NATS_NKEY", "NATS_CERT", "NATS_KEY",
	envStore, "LEADER_ANNOUNCE_TO", "LEADER_DASH_TOKEN",
}

// WithoutCredentials returns an environment without the variables that hold
// credentials of the commands, or contain where they are. A program that a
// command starts may use the same server, so that NATS_URL stays unless it has
// a user or a token in it.
func WithoutCredentials(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return slices.Contains(credentials, name) || name == "NATS_URL" && strings.Contains(value, "@")
	})
}
