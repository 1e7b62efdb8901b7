package proxy

import (
	"testing"
	"time"
)

// Many bytes at a time are fast, few are counted soon.
func TestChunksGrowWhileTheyAreCarriedBriskly(t *testing.T) {
	chunk := int64(minChunk)
	for range 10 {
		chunk = next(chunk, time.Millisecond)
	}
	if chunk != maxChunk {
		t.Errorf("%d bytes on a fast connection, want %d", chunk, maxChunk)
	}
	// At a steady rate those of two chunks are never further apart than a chunk
	// that is just not too slow, and twice that.
	for rate := 1e5; rate < 1e10; rate *= 1.7 {
		chunk := int64(minChunk)
		for range 100 {
			took := time.Duration(float64(chunk) / rate * 1e9)
			if chunk > minChunk && took > 2*brisk {
				t.Fatalf("at %.0f bytes a second %d are counted after %v", rate, chunk, took)
			}
			chunk = next(chunk, took)
		}
	}
	if chunk = next(maxChunk, time.Second); chunk != minChunk {
		t.Errorf("%d bytes on one that has become slow, want %d", chunk, minChunk)
	}
}
