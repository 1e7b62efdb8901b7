package s3store

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store/tlsfiles/tlsfilestest"
)

func TestAuthoritiesAreReadAtEachHandshake(t *testing.T) {
	tlsfilestest.RunAuthorities(t, func(address, ca string) func(context.Context) {
		t.Setenv("AWS_CA_BUNDLE", ca)
		t.Setenv("AWS_ACCESS_KEY_ID", "key")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		client, transport, err := connect(t.Context(), settings{endpoint: "https://" + address, region: home, pathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.CloseIdleConnections)
		return func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("bucket")})
		}
	})
}
