package gcsstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/objects"
)

// bucket implements [objects.Bucket]. A tag is a generation.
type bucket struct {
	service *storage.Service
	name    string
}

// generationHeader is the header with the generation that a download shows.
const generationHeader = "X-Goog-Generation"

// Read implements [objects.Bucket].
func (b *bucket) Read(ctx context.Context, name string) (objects.Object, error) {
	res, err := b.service.Objects.Get(b.name, name).Context(ctx).Download()
	if answer := answerOf(err); answer != nil && answer.Code == http.StatusNotFound {
		// Or the bucket is missing: the answer has the same code. Check and
		// each write report a missing bucket.
		return objects.Object{Now: objects.Date(answer.Header)}, nil
	}
	if err != nil {
		return objects.Object{}, b.explain(classifyRead(err), err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	content, err := objects.ReadContent(res.Body)
	if err != nil {
		return objects.Object{}, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	tag := res.Header.Get(generationHeader)
	if tag == "" {
		return objects.Object{}, fmt.Errorf("%w: bucket %s: the answer contains no generation, without which no write is safe", store.ErrPermanent, b.name)
	}
	return objects.Object{Content: content, Tag: tag, Now: objects.Date(res.Header)}, nil
}

// Write implements [objects.Bucket]. The call sends once: by default the client
// library repeats a request only for uploads in chunks.
func (b *bucket) Write(ctx context.Context, name string, content []byte, tag string) (string, error) {
	generation := int64(0) // there must be none
	if tag != "" {
		var err error
		if generation, err = strconv.ParseInt(tag, 10, 64); err != nil {
			return "", fmt.Errorf("%w: bucket %s: generation %q: %w", store.ErrPermanent, b.name, tag, err)
		}
	}
	var way objects.Passage
	o, err := b.service.Objects.Insert(b.name, &storage.Object{Name: name, ContentType: objects.ContentType, CacheControl: objects.CacheControl}).
		Media(bytes.NewReader(content), googleapi.ContentType(objects.ContentType), googleapi.ChunkSize(0)).
		IfGenerationMatch(generation).Fields("generation").Context(way.Watch(ctx)).Do()
	if err != nil {
		return "", b.explain(classifyWrite(err, &way), err)
	}
	if o.Generation == 0 {
		return "", nil // it is read before the next write
	}
	return strconv.FormatInt(o.Generation, 10), nil
}

// List implements [objects.Bucket].
func (b *bucket) List(ctx context.Context, prefix string) (all []objects.Listed, err error) {
	call := b.service.Objects.List(b.name).Prefix(prefix).Fields("items(name,generation)", "nextPageToken")
	err = call.Pages(ctx, func(page *storage.Objects) error {
		for _, o := range page.Items {
			all = append(all, objects.Listed{Name: o.Name, Tag: strconv.FormatInt(o.Generation, 10)})
		}
		return nil
	})
	if err != nil {
		return nil, b.explain(classifyRead(err), err)
	}
	return all, nil
}

// answerOf returns the server's refusal, or nil if there is none.
func answerOf(err error) *googleapi.Error {
	answer, _ := errors.AsType[*googleapi.Error](err)
	return answer
}
