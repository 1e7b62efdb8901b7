package s3store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/s3store"
)

func TestAURLThatIsNoneIsExplainedWithoutItsSecret(t *testing.T) {
	long := strings.Repeat("b", 255)
	for url, word := range map[string]string{
		"s3://k:secret@":                                "bucket",
		"s3://k:secret@b_?region=x":                     "bucket",
		"s3://k:secret@bb?region=x":                     "bucket",
		"s3://k:secret@" + long + "b?region=x":          "bucket",
		"s3://k:secret@" + long + "?region=x&create=oh": "create", // 255 are taken
		"s3://k:secret@bucket/a//b?region=x":            "Prefix",
		"s3://k:secret@bucket?region=x&create=maybe":    "create",
		"s3://k:secret@bucket?region=x&path_style=no!":  "path_style",
		"s3://k:secret@bucket?region=x&endpoint=host":   "endpoint",
		"s3://k:secret@bucket?regoin=x":                 "regoin",
		"s3://k:secret@bucket?region=%zz":               "query",
		"s3://k@bucket?region=x":                        "secret",
		"gs://k:hidden@bucket":                          "s3://",
	} {
		_, err := s3store.Open(t.Context(), url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "k:secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestARegionMustBeKnown(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	_, err := s3store.Open(t.Context(), "s3://k:s@bucket")
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "region=") {
		t.Error(err)
	}
}

func TestEveryInvalidOptionIsReported(t *testing.T) {
	_, err := s3store.New(nil, s3store.Options{Prefix: "/", Timeout: -1, Every: -1})
	for _, word := range []string{"client", "Bucket", "Prefix", "Timeout", "Every"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not told: %v", word, err)
		}
	}
}

// Nothing is asked of the server, and no bucket made.
func TestCheckOfAClosedStoreReportsClosed(t *testing.T) {
	client := s3.New(s3.Options{Region: "x", BaseEndpoint: aws.String("http://127.0.0.1:1"), Credentials: aws.AnonymousCredentials{}})
	s, err := s3store.New(client, s3store.Options{Bucket: "bucket", Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"", "reports"} {
		if _, err := s.Check(t.Context(), store.CheckRequest{TTL: time.Minute, Key: key}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}
