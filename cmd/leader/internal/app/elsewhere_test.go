package app

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/store"
)

func variables(of map[string]string) environ.Env {
	return func(name string) (string, bool) {
		value, set := of[name]
		return value, set
	}
}

func TestStoreNamesAServerOfNATSAndABucket(t *testing.T) {
	for named, want := range map[string]struct{ server, bucket string }{
		"nats://ann:secret@a:4222/votes": {"nats://ann:secret@a:4222", "votes"},
		"TLS://a/votes/":                 {"tls://a", "votes"},
		"nats://a":                       {"nats://a", "leaders"},
	} {
		target := Target{Store: named, Bucket: "leaders", Flags: natsconn.Flags{Server: "nats://exported", Context: "exported"}}
		got, nats, err := target.onNATS()
		if err != nil || !nats || got.Server != want.server || got.Bucket != want.bucket || got.Context != "" {
			t.Errorf("--store %s: server %q, bucket %q, %v", named, got.Server, got.Bucket, err)
		}
	}
	if _, _, err := (Target{Store: "nats://a/no bucket", Bucket: "leaders"}).onNATS(); err == nil {
		t.Error("a bucket with a space passes")
	}
}

// A program that opens the same URL by the library reads all of it. If one of
// the two ignored a part, each would elect a leader in another bucket.
func TestQueryOfABucketURLIsTakenOrRefused(t *testing.T) {
	env := variables(map[string]string{"NATS_JS_DOMAIN": "exported", "NATS_CREDS": "exported.creds"})
	for named, want := range map[string]struct{ server, domain, creds, refused string }{
		"nats://a:4222/votes?domain=hub&creds=/f":    {"nats://a:4222", "hub", "/f", ""},
		"wss://a/votes?creds=/f":                     {"wss://a", "exported", "/f", ""},
		"nats://a/votes?domain=leaf&domain=hub":      {"nats://a", "hub", "", ""}, // the library takes the last
		"nats://a/votes?":                            {"nats://a", "exported", "", ""},
		"nats://a/votes?domian=hub":                  {refused: "domian"},
		"nats://a/votes?domain=hub;creds=/f":         {refused: "semicolon"},
		"nats://a/votes?domain=":                     {refused: "domain"},
		"nats://a/votes?create=true":                 {refused: "create"},
		"nats://a/votes?domain=hub&replicas=3":       {refused: "replicas"},
		"nats://ann:secret@a/votes?domain=%zz&x=yes": {refused: "%zz"},
		"nats://a/votes#secret?domain=hub":           {refused: "%23"},
		"nats://ann:12#secret@a/votes":               {refused: "%23"},
		"nats:ann:secret@a/votes":                    {refused: "//"},
		"nats:/votes":                                {refused: "//"},
	} {
		target := Target{Env: env, Store: named, Bucket: "leaders", Flags: natsconn.Flags{Domain: "exported"}}
		switch got, nats, err := target.onNATS(); {
		case want.refused != "":
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "--store") || !strings.Contains(err.Error(), want.refused) || strings.Contains(err.Error(), "secret") {
				t.Errorf("--store %s: %v", named, err)
			}
		case err != nil || !nats || got.Server != want.server || got.Bucket != "votes" || got.Domain != want.domain || got.Creds != want.creds:
			t.Errorf("--store %s: server %q, bucket %q, domain %q, creds %q, %v", named, got.Server, got.Bucket, got.Domain, got.Creds, err)
		}
	}
	for flag, typed := range map[string]natsconn.Flags{"--js-domain": {Domain: "leaf"}, "--creds": {Creds: "/g"}} {
		_, _, err := Target{Store: "nats://a/votes?domain=hub&creds=/f", Bucket: "leaders", Flags: typed}.onNATS()
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), flag) {
			t.Errorf("beside another %s: %v", flag, err)
		}
	}
	same := natsconn.Flags{Domain: "hub", Creds: "/f"}
	if _, _, err := (Target{Store: "nats://a/votes?domain=hub&creds=/f", Bucket: "leaders", Flags: same}).onNATS(); err != nil {
		t.Errorf("beside flags of the same meaning: %v", err)
	}
	// As the parser hands the file on that the environment names.
	exported := Target{Env: env, Store: "nats://a/votes?creds=own.creds", Bucket: "leaders", Flags: natsconn.Flags{Creds: absolute("exported.creds")}}
	if got, _, err := exported.onNATS(); err != nil || got.Creds != absolute("own.creds") {
		t.Errorf("beside exported credentials: %q, %v", got.Creds, err)
	}
	// --dev uses no store that the environment names.
	if _, _, err := (Target{Store: "nats://a/votes?create=true", Bucket: "leaders", Dev: true}).onNATS(); err != nil {
		t.Errorf("with --dev: %v", err)
	}
}

// A bucket that the command line names is refused
// (TestTwoBucketsOfOneCommandLineAreRefused).
func TestABucketOfTheEnvironmentGivesWayToAStoreElsewhere(t *testing.T) {
	target := Target{Store: "redis://a", Bucket: "zork"}
	if err := target.AfterApply(Kit{}, nil); err != nil {
		t.Error(err)
	}
}

func TestStoreThatNobodyKnowsIsRefused(t *testing.T) {
	_, err := Target{Store: "gopher://ann:secret@a/b", Timeout: time.Second}.Open("ls")
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), `"gopher"`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("an unknown scheme: %v", err)
	}
}

// Text after a # or a URL without slashes would be left out.
func TestStoreThatIsReadInPartIsRefused(t *testing.T) {
	kit := Kit{Drivers: []store.Driver{{Schemes: []string{"pg"}, Form: "pg://HOST", Open: func(context.Context, *url.URL) (store.Opened, error) {
		return nil, errors.New("opened")
	}}}}
	for named, word := range map[string]string{"pg://a/b#secret?tls=on": "%23", "pg://ann:12#secret@a/b": "%23", "pg:secret/b": "pg://HOST"} {
		target := Target{Store: named, Timeout: time.Second}
		if err := target.AfterApply(kit, nil); err != nil {
			t.Errorf("%s: %v", named, err)
		}
		_, err := target.Open("ls")
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "--store") || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", named, err)
		}
	}
	for _, named := range []string{"redis:secret", "redis://#secret", "nats:secret"} {
		if err := (Target{Store: named, Dev: true}).checkDev(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("--dev with %s: %v", named, err)
		}
	}
}

func TestAStoreIsShownWithoutWhatIsSecret(t *testing.T) {
	for named, want := range map[string]string{
		"etcd://ann:secret@a:1/p?password=secret":                                               "***@a:1/p",
		"quorum://?m=a=nats://ann:secret@n1:4222/leaders&m=b=etcd://n2/p?password=secret%26x=1": "quorum://?m=a=nats://***@n1:4222/leaders&m=b=etcd://n2/p",
	} {
		if got := shownURL(named); got != want {
			t.Errorf("shownURL(%q) = %q, want %q", named, got, want)
		}
	}
}

func TestStoreAndServerExcludeEachOther(t *testing.T) {
	env := variables(map[string]string{"NATS_URL": "nats://exported"})
	target := Target{Env: env, Store: "nats://a/b", Bucket: "leaders", Timeout: time.Second, Flags: natsconn.Flags{Server: "nats://exported"}}
	if err := target.Validate(); err != nil {
		t.Errorf("beside an exported server: %v", err)
	}
	target.Server = "nats://typed"
	if err := target.Validate(); err == nil || !strings.Contains(err.Error(), "--store") {
		t.Errorf("beside --server: %v", err)
	}
}
