// Package s3store_test judges the store on versitygw, which keeps objects as
// files.
package s3store_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
)

func TestMain(m *testing.M) { trial.Main(m) }

// names makes the names of prefixes and keys unique.
var names atomic.Int64

func unique(word string) string { return fmt.Sprintf("%s%d", word, names.Add(1)) }

// bucket is the one of these tests.
const bucket = "lab"

// A user has a key.
type user struct{ key, secret string }

func root() user { return user{objectlab.Key, objectlab.Secret} }

// client returns a client with its own connections, closed when the test ends.
// Its retries are the usual ones.
func client(tb testing.TB, addr string, who user, configure ...func(*s3.Options)) *s3.Client {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	tb.Cleanup(transport.CloseIdleConnections)
	opts := s3.Options{
		BaseEndpoint: aws.String("http://" + addr), Region: objectlab.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(who.key, who.secret, ""),
		HTTPClient:  &http.Client{Transport: transport},
	}
	return s3.New(opts, configure...)
}

// over returns a store over the client.
func over(tb testing.TB, c *s3.Client, opts s3store.Options) *s3store.Store {
	tb.Helper()
	opts.Bucket = bucket
	s, err := s3store.New(c, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// at returns a store at the address, with its own client.
func at(tb testing.TB, addr, prefix string) *s3store.Store {
	tb.Helper()
	return over(tb, client(tb, addr, root()), s3store.Options{Prefix: prefix})
}

// made starts a server, and makes the bucket.
func made(tb testing.TB, flags ...string) (*objectlab.Server, *s3.Client) {
	tb.Helper()
	srv := objectlab.StartS3(tb, flags...)
	c := client(tb, srv.Addr, root())
	if _, err := c.CreateBucket(trial.Within(tb), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		tb.Fatal(err)
	}
	return srv, c
}

// An operator uses the ordinary tools.
type operator struct {
	testing.TB
	c *s3.Client
}

func (o operator) put(name string, content []byte) error {
	_, err := o.c.PutObject(trial.Within(o), &s3.PutObjectInput{Bucket: aws.String(bucket), Key: &name, Body: strings.NewReader(string(content))})
	return err
}

func (o operator) remove(name string) error {
	_, err := o.c.DeleteObject(trial.Within(o), &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: &name})
	return err
}

// content is the content of an object, and is empty if there is none.
func (o operator) content(name string) (string, error) {
	out, err := o.c.GetObject(trial.Within(o), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: &name})
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(out.Body)
	return string(text), errors.Join(err, out.Body.Close())
}

// objects are the names of those that begin as stated.
func (o operator) objects(prefix string) (all []string) {
	o.Helper()
	out, err := o.c.ListObjectsV2(trial.Within(o), &s3.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: &prefix})
	if err != nil {
		o.Fatal(err)
	}
	for _, object := range out.Contents {
		all = append(all, aws.ToString(object.Key))
	}
	return all
}
