package store_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// opened is a memory store with the URL that it was opened by.
type opened struct {
	*memstore.Store
	u *url.URL
}

func (opened) Close() error { return nil }

func driver(schemes ...string) store.Driver {
	return store.Driver{
		Schemes: schemes, Form: schemes[0] + "://HOST/NAME",
		Open: func(_ context.Context, u *url.URL) (store.Opened, error) { return opened{memstore.New(), u}, nil },
	}
}

func TestOpenTakesTheDriverOfTheScheme(t *testing.T) {
	st, err := store.Open(t.Context(), "PG://ann:secret@db/leaders", driver("mem"), driver("postgres", "pg"))
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := st.(opened); !ok || o.u.Host != "db" || o.u.Path != "/leaders" {
		t.Errorf("opened %+v", st)
	}
}

func TestOpenReportsEachFaultOfTheURL(t *testing.T) {
	for rawURL, want := range map[string]string{
		"redis://h/1":                 `scheme "redis"; known here are mem://HOST/NAME, pg://HOST/NAME`,
		"localhost:6379":              `scheme "localhost"`,
		"":                            `scheme ""`,
		"pg://ann:secret@h:port/name": "invalid port",
		"pg://ann:secret@h/%zz":       "invalid URL escape",
		// A password that is not escaped is taken for other parts.
		"pg://ann:secret/word@h/name": "invalid port",
		"pg://ann:secret#word@h/name": "%23",
		"pg://ann:se%secret@h/name":   "invalid URL escape",
		// The packages that read parameters would leave such ones out.
		"pg://h/name?a=b;prefix=secret":         `parameter "a"`,
		"pg://h/name?a=b&prefix=secret;c=d&e=f": `parameter "prefix"`,
		"pg://h/name?a=b&tls=secret%zz":         `parameter "tls"`,
		"pg://h/name?a=b&%zz=secret":            `parameter "%zz"`,
		"pg://ann:12?secret;word@h/name":        `parameter ""`, // which is a password
		// Of what stands behind # nothing would be read, and it may be a password.
		"pg://h/name#secret?tls=on": "%23",
		"pg://h/name?a=b#secret":    "%23",
		"pg://h/name#%73ecret":      "%23",
		"pg://ann:12#secret@h/name": "%23",
		"pg:h/secret-":              "//",
		"PG:ann:secret@h/name":      "pg://HOST/NAME",
		"pg:/secret-":               "//", // would be a path without a host
		"pg:":                       "//",
		"pg:?secret=yes":            "//",
	} {
		_, err := store.Open(t.Context(), rawURL, driver("mem"), driver("pg"))
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v; want %q, and no password", rawURL, err, want)
		}
	}
	for _, rawURL := range []string{"pg://h/name", "pg://h/name?", "pg://h/name?a=b&&c&=d&e=%3B%26+f=g", "pg://h/a%23b?c=%23", "pg:///name", "pg://"} {
		if _, err := store.Open(t.Context(), rawURL, driver("pg")); err != nil {
			t.Errorf("Open(%q): %v", rawURL, err)
		}
	}
	if _, err := store.Open(t.Context(), "nats://h"); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "none") {
		t.Errorf("without drivers: %v", err)
	}
}
