package app

import (
	"reflect"
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
)

func TestServerWithoutCredentialsIsPassedOn(t *testing.T) {
	env := []string{"NATS_URL=nats://a:4222,tls://b", "NATS_CA=/ca.pem", "NATS_PASSWORD_OLD=x", "PATH=/bin", "LEADER_BUCKET=votes"}
	if got := WithoutCredentials(env); !slices.Equal(got, env) {
		t.Errorf("left %q of %q", got, env)
	}
	for _, credential := range []string{"NATS_URL=nats://a,nats://token@b", "NATS_TOKEN=x", "NATS_TOKEN=", "LEADER_STORE=postgres://u:p@h"} {
		if got := WithoutCredentials([]string{credential}); len(got) > 0 {
			t.Errorf("%q is passed on", credential)
		}
	}
}

// A new flag of the connection is a credential, or it is none.
func TestEveryVariableOfTheConnectionIsClassed(t *testing.T) {
	plain := []string{"NATS_URL", "NATS_CA", "NATS_TLS_FIRST", "NATS_JS_DOMAIN", "NATS_INBOX_PREFIX"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[natsconn.Flags]()) {
		if name := f.Tag.Get("env"); slices.Contains(plain, name) == slices.Contains(credentials, name) {
			t.Errorf("is %s a credential?", name)
		}
	}
}
