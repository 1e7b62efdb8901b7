package etcdstore

import (
	"context"
	"math"

	"google.golang.org/grpc"
)

// A roomy connection takes answers of any size, as the client's own calls do.
// The client asks for that with each of these (client/v3/options.go,
// defaultMaxCallRecvMsgSize), so that its connection still has gRPC's limit of
// 4 MiB. A list of registers exceeds that, and would be refused for ever.
type roomy struct{ *grpc.ClientConn }

// Invoke implements [grpc.ClientConnInterface].
func (c roomy) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConn.Invoke(ctx, method, args, reply, append(opts, grpc.MaxCallRecvMsgSize(math.MaxInt32))...)
}

// NewStream implements [grpc.ClientConnInterface].
func (c roomy) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConn.NewStream(ctx, desc, method, append(opts, grpc.MaxCallRecvMsgSize(math.MaxInt32))...)
}
