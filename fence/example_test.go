package fence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
)

// The rule alone. Where the mark is kept, and how it is stored together with
// the act, is the resource's business.
func ExampleMark_Accept() {
	first := leader.Term{Number: 41, Token: "a"}
	second := leader.Term{Number: 57, Token: "b"}

	var mark fence.Mark // of a resource that has seen nobody
	for _, term := range []leader.Term{first, first, second, first} {
		next, err := mark.Accept(term)
		if err != nil {
			fmt.Println("refused:", err)
			continue
		}
		mark = next // stored before the act, or with it
		fmt.Println("accepted:", term.Number)
	}
	// Output:
	// accepted: 41
	// accepted: 41
	// accepted: 57
	// refused: fence: stale term 41/ca978112: 57/3e23e816 was accepted
}

// A resource inside one process, whose mark survives its restarts in a file.
func ExampleGate() {
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "mark")

	open := func() (*fence.Gate, error) {
		var last fence.Mark
		text, err := os.ReadFile(file)
		if err == nil {
			err = last.UnmarshalText(text)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err // and not the zero Mark, which would let everyone in
		}
		gate := fence.NewGate(last)
		gate.Persist = func(_ context.Context, m fence.Mark) error {
			text, err := m.MarshalText()
			if err != nil {
				return err
			}
			// Whole or not at all. A real one syncs file and directory, too.
			return errors.Join(os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file))
		}
		return gate, nil
	}

	write := func(term leader.Term) {
		gate, err := open() // each time a restart
		if err != nil {
			fmt.Println(err)
			return
		}
		ctx, leave, err := gate.Enter(context.Background(), term)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer leave() // a newer term waits until here
		fmt.Println("term", term.Number, "acts until its context ends:", ctx.Err() == nil)
	}
	write(leader.Term{Number: 57, Token: "b"})
	write(leader.Term{Number: 41, Token: "a"})
	// Output:
	// term 57 acts until its context ends: true
	// fence: stale term 41/ca978112: 57/3e23e816 was accepted
}
