package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

func TestClassifyReadsWhatAnErrorClaims(t *testing.T) {
	vendor := errors.New("wrong last sequence: 12")
	for _, c := range []struct {
		name string
		err  error
		want store.Outcome
	}{
		{"nil", nil, store.OK},
		{"conflict", fmt.Errorf("%w: key stands elsewhere: %w", store.ErrConflict, vendor), store.Conflict},
		{"transient", fmt.Errorf("cas: %w", store.ErrTransient), store.Transient},
		{"permanent", fmt.Errorf("%w: %w", store.ErrPermanent, vendor), store.Permanent},
		{"invalid is permanent", fmt.Errorf("%w: key %q", store.ErrInvalid, "a..b"), store.Permanent},
		{"unknown", fmt.Errorf("%w: %w", store.ErrUnknown, context.DeadlineExceeded), store.Unknown},
		{"closed is permanent", fmt.Errorf("%w: %w", store.ErrClosed, vendor), store.Permanent},
		{"no class", vendor, store.Unknown},
		{"a bare deadline has no class", context.DeadlineExceeded, store.Unknown},
		{"unknown beats conflict", errors.Join(store.ErrConflict, store.ErrUnknown), store.Unknown},
		{"unknown beats transient", fmt.Errorf("%w: %w", store.ErrTransient, store.ErrUnknown), store.Unknown},
		{"unknown beats invalid", errors.Join(store.ErrInvalid, store.ErrUnknown), store.Unknown},
		{"permanent beats transient", errors.Join(store.ErrTransient, store.ErrPermanent), store.Permanent},
	} {
		if got := store.Classify(c.err); got != c.want {
			t.Errorf("%s: Classify(%v) = %v, want %v", c.name, c.err, got, c.want)
		}
	}
}

func TestClosedAndInvalidRefinePermanentAndNothingElse(t *testing.T) {
	for refined, others := range map[error][]error{
		store.ErrInvalid: {store.ErrConflict, store.ErrTransient, store.ErrUnknown, store.ErrClosed},
		store.ErrClosed:  {store.ErrConflict, store.ErrTransient, store.ErrUnknown, store.ErrInvalid},
	} {
		//nolint:staticcheck // SA1032: that the second is false is half of what is asked
		if !errors.Is(refined, store.ErrPermanent) || errors.Is(store.ErrPermanent, refined) {
			t.Errorf("%v does not refine ErrPermanent", refined)
		}
		for _, other := range others {
			if errors.Is(refined, other) {
				t.Errorf("%v is %v", refined, other)
			}
		}
	}
}

func TestOutcomesAndStatesHaveNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"ok": store.OK, "conflict": store.Conflict, "transient": store.Transient, "permanent": store.Permanent,
		"unknown": store.Unknown, "CONNECTED": store.Connected, "DISCONNECTED": store.Disconnected, "CLOSED": store.Closed,
	} {
		if got.String() != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
	if got := store.Outcome(200).String(); got != "unknown" {
		t.Errorf("an undefined outcome is called %q, want the safe reading", got)
	}
}

func TestValidKeyTakesTheAlphabetOfKeyValueBuckets(t *testing.T) {
	for _, key := range []string{"a", "A", "0", "-", "_", "=", "/", "a.b", "a.b.c", "_ctl.group", "a/b", "/a/", strings.Repeat("k", store.MaxKey)} {
		if !store.ValidKey(key) {
			t.Errorf("ValidKey(%q) = false", key)
		}
	}
	for _, key := range []string{"", ".", "..", ".a", "a.", "a..b", "a b", "a\tb", "a\nb", "a\x00", "*", "a.*", ">", "a.>", "a:b", "ä", "a\xff",
		"a\\b", "a%b", "a+b", "a@b", "a$b", strings.Repeat("k", store.MaxKey+1)} {
		if store.ValidKey(key) {
			t.Errorf("ValidKey(%q) = true", key)
		}
	}
}

func FuzzValidKey(f *testing.F) {
	for _, key := range []string{"", "a", "a.b", ".a", "a..b", "a b", "ä"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if !store.ValidKey(key) {
			return
		}
		if len(key) == 0 || len(key) > store.MaxKey {
			t.Fatalf("a key of %d bytes is valid", len(key))
		}
		for token := range strings.SplitSeq(key, ".") {
			if token == "" || strings.ContainsAny(token, " \t\r\n*>\x00") {
				t.Fatalf("%q is valid, but no NATS subject", key)
			}
		}
	})
}
