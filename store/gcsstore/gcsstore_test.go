package gcsstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
)

func TestAURLThatIsNoneIsExplained(t *testing.T) {
	long := strings.Repeat("b", 222)
	for url, word := range map[string]string{
		"gs://":                             "Bucket",
		"gs://B?auth=none":                  "Bucket",
		"gs://ab?auth=none":                 "Bucket",
		"gs://" + long + "b?auth=none":      "Bucket",
		"gs://" + long + "?auth=some":       "auth", // 222 are taken
		"gs://bucket/a//b?auth=none":        "Prefix",
		"gs://bucket?create=maybe":          "create",
		"gs://bucket?create=true&auth=none": "Project",
		"gs://bucket?endpoint=host":         "endpoint",
		"gs://bucket?auth=some":             "auth",
		"gs://bucket?projct=x":              "projct",
		"gs://bucket?project=%zz":           "query",
		"gs://user:hidden@bucket":           "user",
		"s3://bucket":                       "gs://",
	} {
		_, err := gcsstore.Open(t.Context(), url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestEveryInvalidOptionIsReported(t *testing.T) {
	_, err := gcsstore.New(nil, gcsstore.Options{Prefix: "/", Create: true, Timeout: -1, Every: -1})
	for _, word := range []string{"service", "Bucket", "Project", "Prefix", "Timeout", "Every"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not told: %v", word, err)
		}
	}
}

// Nothing is asked of the server, and no bucket made.
func TestCheckOfAClosedStoreReportsClosed(t *testing.T) {
	service, err := storage.NewService(t.Context(), option.WithoutAuthentication(), option.WithEndpoint("http://127.0.0.1:1/storage/v1/"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := gcsstore.New(service, gcsstore.Options{Bucket: "bucket", Create: true, Project: "project"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, key := range []string{"", "reports"} {
		if _, err := s.Check(ctx, store.CheckRequest{TTL: time.Minute, Key: key}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}
