package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/store"
)

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

func TestStoreThatNobodyKnowsIsRefused(t *testing.T) {
	_, err := Target{Store: "gopher://ann:secret@a/b", Timeout: time.Second}.Open("ls")
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), `"gopher"`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("an unknown scheme: %v", err)
	}
}

func TestStoreAndServerExcludeEachOther(t *testing.T) {
	t.Setenv("NATS_URL", "nats://exported")
	target := Target{Store: "nats://a/b", Bucket: "leaders", Timeout: time.Second, Flags: natsconn.Flags{Server: "nats://exported"}}
	if err := target.Validate(); err != nil {
		t.Errorf("beside an exported server: %v", err)
	}
	target.Server = "nats://typed"
	if err := target.Validate(); err == nil || !strings.Contains(err.Error(), "--store") {
		t.Errorf("beside --server: %v", err)
	}
}
