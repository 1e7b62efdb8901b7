package proof_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A leader signs in the context of its term, and an archive that has no
// connection to the store takes the proof.
func ExampleSigner() {
	key, err := proof.GenerateKey()
	if err != nil {
		panic(err)
	}
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: time.Minute, HeartbeatInterval: time.Second, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		panic(err)
	}
	signer, err := proof.NewSigner(e, "reports", "host-1", key, proof.SignerOptions{Lifetime: time.Minute})
	if err != nil {
		panic(err)
	}
	shown := make(chan string, 1)
	e.OnPromote(func(ctx context.Context, _ string) {
		text, err := signer.Sign(ctx, "archive")
		if err != nil {
			panic(err)
		}
		shown <- text
	})
	if err := e.Start(context.Background()); err != nil {
		panic(err)
	}
	defer e.Stop() //nolint:errcheck // the end of an example

	keys, err := proof.NewKeySet(key.Public())
	if err != nil {
		panic(err)
	}
	archive, err := proof.NewVerifier("reports", keys, proof.VerifierOptions{Audience: "archive"})
	if err != nil {
		panic(err)
	}
	s, err := archive.Accept(context.Background(), <-shown)
	fmt.Println(s.Leader, s.Audience, err)
	// Output: host-1 archive <nil>
}
