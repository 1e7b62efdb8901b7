package wire_test

import (
	"fmt"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A worker obeys the newest term that it has heard of, and no older one.
func ExampleTerm_Supersedes() {
	newest := wire.Term{Number: 8, Token: "b"}
	fmt.Println(wire.Term{Number: 8, Token: "b"}.Supersedes(newest)) // of the same leader
	fmt.Println(wire.Term{Number: 9, Token: "c"}.Supersedes(newest)) // of its successor
	fmt.Println(wire.Term{Number: 7, Token: "a"}.Supersedes(newest)) // of its predecessor, late
	// Output:
	// true
	// true
	// false
}
