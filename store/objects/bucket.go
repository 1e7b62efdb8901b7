package objects

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// MaxValue is the size in bytes of the largest value that a [Store] takes.
const MaxValue = 1 << 20

// A Bucket holds objects by their names. Its methods may be called at the same
// time, and return when ctx is done. Their errors are classified as in
// [store.Store].
type Bucket interface {
	// Read returns the object as it is at some time during the call. A missing
	// object is not an error, and has no tag. Errors are store.ErrTransient and
	// store.ErrPermanent.
	Read(ctx context.Context, name string) (Object, error)

	// Write stores an object if it has the given tag, or if there is no object
	// and the tag is empty, and returns the new tag. It sends the request at
	// most once, but for repetitions of what was provably refused. Its outcome
	// is as honest as that [store.Store.CompareAndSwap] requires. The new tag
	// may be empty if the system does not report it.
	Write(ctx context.Context, name string, content []byte, tag string) (string, error)

	// List returns all objects whose names begin with the prefix, as they are
	// at some time during the call.
	List(ctx context.Context, prefix string) ([]Listed, error)
}

// An Object is what a read has shown.
type Object struct {
	// Content is what the object contains; nil if there is none.
	Content []byte
	// Tag differs whenever the content does. It is empty if there is no object.
	Tag string
	// Now is the system's clock when it answered, by the second. Zero means
	// that it is unknown.
	Now time.Time
}

// A Listed is an object of a list.
type Listed struct {
	Name string // the prefix included
	Tag  string // empty means that it is not known
}

// The headers of an object: people see text, and no cache keeps it.
const (
	ContentType  = "text/plain; charset=utf-8"
	CacheControl = "no-store"
)

// Date returns the system's clock by the headers of an answer, for [Object], or
// zero.
func Date(h http.Header) time.Time {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return at
}

// ReadContent reads what an object contains, and refuses one that is larger
// than any record.
func ReadContent(r io.Reader) ([]byte, error) {
	const most = MaxValue + maxHeader
	content, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("%w: reading an object: %w", store.ErrTransient, err)
	}
	if len(content) > most {
		return nil, fmt.Errorf("%w: the object has more than %d bytes, and is not a record", store.ErrPermanent, most)
	}
	return content, nil
}
