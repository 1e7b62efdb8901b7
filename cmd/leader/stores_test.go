//go:build !natsonly

package main

import "testing"

// tags are those of the program that the tests run: it is built as they are.
const tags = ""

func TestMistakesWithOtherStoresHaveTheirStatusToo(t *testing.T) {
	t.Parallel()
	judge(t, newReadLab(t), []mistake{
		{"ls --store redis://127.0.0.1?bogus=1", 2, []string{"--store: the store's URL", "bogus"}},
		{"announce g", 2, []string{"--to: is required, and must begin with etcd://"}},
		{"announce g --to gopher://ann:secret@x", 2, []string{`--to gopher://: must begin with etcd://`}},
	})
}
