package s3store

import (
	"net/url"
	"testing"
)

func TestEmptyPathStyleIsTheDefault(t *testing.T) {
	for query, want := range map[string]bool{
		"endpoint=http://h": true, "endpoint=http://h&path_style=": true, "endpoint=http://h&path_style=false": false,
		"path_style=": false, "path_style=true": true,
	} {
		set, err := parse(&url.URL{Scheme: "s3", Host: "bucket", RawQuery: query})
		if err != nil || set.pathStyle != want {
			t.Errorf("%s: path style %v, %v", query, set.pathStyle, err)
		}
	}
}
