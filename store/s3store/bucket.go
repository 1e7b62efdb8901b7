package s3store

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3's ETags are made of it
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/objects"
)

// bucket implements [objects.Bucket]. A tag is an ETag without its quotes, with
// which lists and reads may differ.
type bucket struct {
	client *s3.Client
	name   string
	opaque atomic.Bool // tags are not digests of the content here
}

// once has the client send a request once. A repetition of a write whose answer
// was lost would be refused for what the first one wrote, as a false conflict.
func once(o *s3.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 1
}

func unquote(tag *string) string { return strings.Trim(aws.ToString(tag), `"`) }

// rereads is how often an object is read that changes meanwhile.
const rereads = 8

// Read implements [objects.Bucket]. Some gateways read the ETag and the content
// one after the other, so that a read beside a write shows the one of before
// with the other of after (versitygw 1.8.0 does). Where an ETag looks like a
// digest of the content it must be one, therefore, or come twice with the same
// content: with encryption by KMS an ETag is something else, and then never a
// digest.
func (b *bucket) Read(ctx context.Context, name string) (objects.Object, error) {
	var last objects.Object
	for range rereads {
		object, err := b.get(ctx, name)
		if err != nil || object.Tag == "" || b.opaque.Load() || !isDigest(object.Tag) || object.Tag == sum(object.Content) {
			return object, err
		}
		if object.Tag == last.Tag && bytes.Equal(object.Content, last.Content) {
			b.opaque.Store(true)
			return object, nil
		}
		last = object
	}
	return objects.Object{}, fmt.Errorf("%w: bucket %s: %s changes faster than it is read", store.ErrTransient, b.name, name)
}

// isDigest reports whether an ETag looks like a digest of the content.
func isDigest(tag string) bool { return len(tag) == 32 && strings.Trim(tag, "0123456789abcdef") == "" }

func sum(content []byte) string { return fmt.Sprintf("%x", md5.Sum(content)) } //nolint:gosec // S3's ETags are made of it

func (b *bucket) get(ctx context.Context, name string) (objects.Object, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &name}, once)
	if code(err) == noSuchKey {
		return objects.Object{Now: date(err)}, nil
	}
	if err != nil {
		return objects.Object{}, b.explain(classifyRead(err), err)
	}
	defer out.Body.Close() //nolint:errcheck // it was read
	content, err := objects.ReadContent(out.Body)
	if err != nil {
		return objects.Object{}, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	object := objects.Object{Content: content, Tag: unquote(out.ETag)}
	if object.Tag == "" {
		return objects.Object{}, fmt.Errorf("%w: bucket %s: the answer has no ETag, without which no write is safe", store.ErrPermanent, b.name)
	}
	object.Now, _ = awsmiddleware.GetServerTime(out.ResultMetadata) // zero if the answer has none
	return object, nil
}

// date reads the server's clock from a refusal.
func date(err error) time.Time {
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || answer.Response == nil {
		return time.Time{}
	}
	return objects.Date(answer.Response.Header)
}

// Write implements [objects.Bucket].
func (b *bucket) Write(ctx context.Context, name string, content []byte, tag string) (string, error) {
	in := &s3.PutObjectInput{
		Bucket: &b.name, Key: &name, Body: bytes.NewReader(content),
		ContentType: aws.String(objects.ContentType), CacheControl: aws.String(objects.CacheControl),
	}
	if tag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(`"` + tag + `"`)
	}
	var way passage
	out, err := b.client.PutObject(way.Watch(ctx), in, once, way.option)
	if err != nil {
		return "", b.explain(classifyWrite(err, &way), err)
	}
	return unquote(out.ETag), nil
}

// List implements [objects.Bucket].
func (b *bucket) List(ctx context.Context, prefix string) (all []objects.Listed, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix}
	for {
		out, err := b.client.ListObjectsV2(ctx, in, once)
		if err != nil {
			return nil, b.explain(classifyRead(err), err)
		}
		for _, o := range out.Contents {
			all = append(all, objects.Listed{Name: aws.ToString(o.Key), Tag: unquote(o.ETag)})
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextContinuationToken) == "" {
			return all, nil
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

// remove deletes an object without a condition. Only those are deleted on which
// conditions were tried.
func (b *bucket) remove(ctx context.Context, name string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &name}, once)
	if err != nil {
		return b.explain(classifyRead(err), err)
	}
	return nil
}
