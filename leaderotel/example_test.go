package leaderotel_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderotel"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The telemetry is made once, and its hooks given to every election. The
// program's work in a term becomes a child of the term's span.
func Example() {
	recorder := tracetest.NewSpanRecorder() // a program has an exporter here
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))

	// Without options it takes the global providers.
	telemetry, err := leaderotel.New(leaderotel.Options{TracerProvider: traces})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		Hooks: telemetry.Hooks(), // beside other hooks: leader.JoinHooks(other, telemetry.Hooks())
	}
	err = leader.RunWithStore(context.Background(), memstore.New(), cfg, func(ctx context.Context, _ leader.Term) error {
		_, span := traces.Tracer("example").Start(ctx, "work")
		defer span.End()
		return nil
	})
	fmt.Println("error:", err)
	for _, span := range recorder.Ended() {
		fmt.Println(span.Name())
	}
	// Output:
	// error: <nil>
	// election.campaign
	// work
	// election.term
	// election.handover
}
