package mysqlstore

import (
	"net/url"
	"testing"
)

// The driver settles whom it expects to meet when it reads the settings.
func TestACertificateIsTheOneOfTheURLsHost(t *testing.T) {
	for text, want := range map[string]struct{ addr, name string }{
		"mysql://u:p@db.example/app?tls=true":            {"db.example:3306", "db.example"},
		"mysql://u@db.example:3307/app?tls=true&table=t": {"db.example:3307", "db.example"},
		"mysql://u@[2001:db8::1]/app?tls=true":           {"[2001:db8::1]:3306", "2001:db8::1"},
		"mysql://u@db.example/app?tls=preferred":         {"db.example:3306", ""}, // which asks for none
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, cfg, err := parse(u)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if cfg.Net != "tcp" || cfg.Addr != want.addr || cfg.User != "u" || cfg.DBName != "app" || cfg.TLS.ServerName != want.name {
			t.Errorf("%s: %s over %s, database %s of %s, a certificate of %q; want %+v", text, cfg.Addr, cfg.Net, cfg.DBName, cfg.User, cfg.TLS.ServerName, want)
		}
	}
}
