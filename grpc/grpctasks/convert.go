package grpctasks

import (
	"time"

	"github.com/seed-ff2cb582/leader/grpc/grpctasks/internal/pb"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

func each[A, B any](all []A, f func(A) B) []B {
	if len(all) == 0 {
		return nil
	}
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = f(a)
	}
	return out
}

func refTo(r wire.Ref) *pb.Ref { return &pb.Ref{Id: r.ID, Attempt: int64(r.Attempt)} }

func refOf(r *pb.Ref) wire.Ref { return wire.Ref{ID: r.GetId(), Attempt: int(r.GetAttempt())} }

func toWorker(m wire.ToWorker) *pb.ToWorker {
	return &pb.ToWorker{
		Term: m.Term.Number, Token: m.Term.Token, Run: m.Run, Call: m.Call, Revoked: each(m.Revoked, refTo), Settled: each(m.Settled, refTo),
		Orders: each(m.Orders, func(o wire.Order) *pb.Order {
			return &pb.Order{Ref: refTo(o.Ref), Payload: o.Payload, Timeout: int64(o.Timeout)}
		}),
	}
}

func toWorkerOf(m *pb.ToWorker) wire.ToWorker {
	return wire.ToWorker{
		Term: wire.Term{Number: m.GetTerm(), Token: m.GetToken()}, Run: m.GetRun(), Call: m.GetCall(),
		Revoked: each(m.GetRevoked(), refOf), Settled: each(m.GetSettled(), refOf),
		Orders: each(m.GetOrders(), func(o *pb.Order) wire.Order {
			return wire.Order{Ref: refOf(o.GetRef()), Payload: o.GetPayload(), Timeout: time.Duration(o.GetTimeout())}
		}),
	}
}

func fromWorker(group string, m wire.FromWorker) *pb.FromWorker {
	out := &pb.FromWorker{
		Group: group, Worker: m.Worker, Run: m.Run, Seen: m.Seen, SeenToken: m.SeenToken, Leaving: m.Leaving,
		Refused: each(m.Refused, func(r wire.Refusal) *pb.Refusal { return &pb.Refusal{Ref: refTo(r.Ref), Why: string(r.Why)} }),
		Reports: each(m.Reports, func(r wire.Report) *pb.Report {
			return &pb.Report{Ref: refTo(r.Ref), Ok: r.OK, Result: r.Result, Error: r.Error, Permanent: r.Permanent}
		}),
	}
	if p := m.Presence; p != nil {
		out.Presence = &pb.Presence{
			Labels: p.Labels, Capacity: int64(p.Capacity), Lease: int64(p.Lease), Draining: p.Draining, Held: each(p.Held, refTo),
		}
	}
	return out
}

func fromWorkerOf(m *pb.FromWorker) wire.FromWorker {
	out := wire.FromWorker{
		Worker: m.GetWorker(), Run: m.GetRun(), Seen: m.GetSeen(), SeenToken: m.GetSeenToken(), Leaving: m.GetLeaving(),
		Refused: each(m.GetRefused(), func(r *pb.Refusal) wire.Refusal {
			return wire.Refusal{Ref: refOf(r.GetRef()), Why: wire.Why(r.GetWhy())}
		}),
		Reports: each(m.GetReports(), func(r *pb.Report) wire.Report {
			return wire.Report{Ref: refOf(r.GetRef()), OK: r.GetOk(), Result: r.GetResult(), Error: r.GetError(), Permanent: r.GetPermanent()}
		}),
	}
	if p := m.GetPresence(); p != nil {
		out.Presence = &wire.Presence{
			Labels: p.GetLabels(), Capacity: int(p.GetCapacity()), Lease: time.Duration(p.GetLease()), Draining: p.GetDraining(), Held: each(p.GetHeld(), refOf),
		}
	}
	return out
}
