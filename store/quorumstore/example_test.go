package quorumstore_test

import (
	"context"
	"fmt"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

func ExampleNew() {
	st, err := quorumstore.New([]quorumstore.Member{
		{Name: "a", Store: memstore.New()}, // a server each, in a program
		{Name: "b", Store: memstore.New()},
		{Name: "c", Store: memstore.New()},
	}, quorumstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = st.Close() }()
	ctx := context.Background()
	if _, err := st.CompareAndSwap(ctx, store.Write{Key: "group", Value: []byte("hello")}); err != nil {
		fmt.Println(err)
		return
	}
	e, err := st.Get(ctx, "group")
	fmt.Println(string(e.Value), err)
	// Output: hello <nil>
}
