package mongolab_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store/mongostore"
	"github.com/seed-ff2cb582/leader/test/labs/stores/mongolab"
)

// The parsing of a URI can be tested without a server.
func TestURIs(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"mongodb://127.0.0.1:1":                            "mongodb://127.0.0.1:1/own",
		"mongodb://a:1,b:2/?replicaSet=rs0":                "mongodb://a:1,b:2/own?replicaSet=rs0",
		"mongodb://me:hush@a/":                             "mongodb://me:hush@a/own?authSource=admin",
		"mongodb://me:hush@a/users?tls=true":               "mongodb://me:hush@a/own?authSource=users&tls=true",
		"mongodb://me:hush@a/users?authSource=others":      "mongodb://me:hush@a/own?authSource=others",
		"mongodb://127.0.0.1:1/x?directConnection=true":    "mongodb://127.0.0.1:1/own?directConnection=true",
		"mongodb+srv://me:hush@example.invalid/?appName=x": "mongodb+srv://me:hush@example.invalid/own?appName=x&authSource=admin",
	} {
		l := &mongolab.Lab{URI: uri, Database: "own"}
		if got := l.StoreURL(t); got != want {
			t.Errorf("%s: the store's URL is %s, want %s", uri, got, want)
		}
	}
	// A client is made without a server, if its options go together.
	l := &mongolab.Lab{URI: "mongodb://me:hush@a:1,b:2/?replicaSet=rs0&tls=true", Database: "own"}
	through := l.Through("b:2", "127.0.0.1:3")
	if err := through.Validate(); err != nil || through.TLSConfig.ServerName != "b" {
		t.Errorf("a client through a proxy: %v, certificate of %q", err, through.TLSConfig.ServerName)
	}
	if _, err := mongostore.New(l.Client(t, through).Database("own"), mongostore.Options{}); err != nil {
		t.Error(err)
	}
	if p := (&mongolab.Lab{URI: "mongodb://127.0.0.1/?directConnection=true"}).Primary(t); p != "127.0.0.1:27017" {
		t.Errorf("the primary is %s", p)
	}
}
