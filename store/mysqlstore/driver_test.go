package mysqlstore

import (
	"net/url"
	"strings"
	"testing"
)

// The driver fixes the expected host name of the certificate when it reads the
// settings.
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

// The driver tries the names of a list in turn, and unescapes none.
func TestAListOfCharsetsReachesTheDriver(t *testing.T) {
	for _, list := range []string{"utf8mb4,utf8", "utf8mb4%2Cutf8"} {
		u, err := url.Parse("mysql://u@db.example/app?time_zone=%27%2B00:00%27&charset=" + list)
		if err != nil {
			t.Fatal(err)
		}
		_, cfg, err := parse(u)
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		// The names are not exported.
		if dsn := cfg.FormatDSN(); !strings.Contains(dsn, "charset=utf8mb4,utf8&") || cfg.Params["time_zone"] != "'+00:00'" {
			t.Errorf("charset=%s reaches the driver as %s", list, dsn)
		}
	}
}
