package main

// An edit replaces a piece of a file, which must occur there exactly once.
type edit struct{ file, old, new string }

// A check is the tests that are expected to catch a mutant.
type check struct {
	pkg  string // the package, from the root of the repository
	run  string // as for go test -run
	args string // further arguments, separated by spaces
}

// A mutant puts one of the field's bugs back into our code.
type mutant struct {
	bug   int // its number in bugs
	name  string
	edits []edit
	check check
}

// A cover is the reason why a bug, or a part of it, has no place in this code
// where it could be put back, with the test that shows it.
type cover struct {
	bug   int
	why   string
	check check
}

const (
	machine = "internal/machine/"
	engine  = "internal/engine/"
	nats    = "store/natsstore/"
)

// simulated is the simulation of the core, with so many schedules, always the
// same.
func simulated(schedules string) check {
	return check{pkg: "internal/machine", run: "^TestSimulation$", args: "-sim.base=1 -sim.seeds=" + schedules}
}

// margins is the explorer on its fine scale, in small.
func margins() check { return core("TestExploreMargins") }

func core(run string) check { return check{pkg: "internal/machine", run: "^" + run + "$"} }

func traces(run string) check { return check{pkg: "internal/machine", run: "^TestTraces$/" + run} }

func root(run string) check { return check{pkg: ".", run: "^(" + run + ")$"} }

// onNATS is a test on a real server. If a mutant loses an event, the test waits
// for it until patience ends, so that has to be shorter than a mutant may take.
func onNATS(run string) check {
	return check{pkg: "test/natsstore", run: run, args: "-patience=20s"}
}

func mutants() []mutant {
	var all []mutant
	for _, part := range [][]mutant{twoLeaders(), stranded(), untrue(), costly(), reviewed(), reviewedOutside(), carried(), reviewedLabs()} {
		all = append(all, part...)
	}
	return all
}

// twoLeaders are the bugs that let two lead.
func twoLeaders() []mutant {
	return []mutant{
		{1, "a renewal counts from its acknowledgement", []edit{
			{machine + "write.go", "case Renew:\n\t\tc.renewed(c.ev.Rev, c.s.Write.Sent)", "case Renew:\n\t\tc.renewed(c.ev.Rev, c.now)"},
		}, simulated("300")},
		{2, "IsLeader goes by what the election's goroutine has noticed", []edit{
			{engine + "candidate.go", "return w != nil && w.open()", "return w != nil"},
		}, root("TestTermEndsOnTimeAlthoughTheElectionIsStuck")},
		{2, "the candidate does not notice that its window has closed", []edit{
			{machine + "state.go", "s.Grant.Promoted && !s.Grant.Trust.Reached(now)", "s.Grant.Promoted"},
			{machine + "step.go", "c.s.Phase == Holding && c.s.Grant.Trust.Reached(c.now)", "false"},
		}, simulated("300")},
		{3, "trust without a margin", []edit{
			{machine + "time.go", "return ttl - margin(ttl, drift)", "return ttl"},
		}, simulated("300")},
		{3, "a challenge without a margin", []edit{
			{machine + "time.go", "return ttl + margin(ttl, drift)", "return ttl"},
		}, simulated("300")},
		{4, "a claim that is found applied counts from the read-back", []edit{
			{machine + "claim.go", "c.granted(seen.Rev, c.s.Write.First)", "c.granted(seen.Rev, c.now)"},
		}, simulated("1000")},
		{4, "a renewal that is found applied counts from the read-back", []edit{
			{machine + "hold.go", "c.renewed(seen.Rev, c.s.Write.First)", "c.renewed(seen.Rev, c.now)"},
		}, simulated("300")},
		{5, "a releaser adopts its own record again", []edit{
			{machine + "release.go", "\tif c.ours(seen) {\n\t\tif c.s.Write.Stage == Flying {", "\tif c.ours(seen) {\n\t\tc.granted(seen.Rev, c.now)\n\t\treturn\n\t}\n\tif c.ours(seen) {\n\t\tif c.s.Write.Stage == Flying {"},
		}, simulated("300")},
		{6, "a release is written over any record", []edit{
			{nats + "internal/wire/message.go", "f.msg.Header.Set(HeaderOperation, OpDelete)", "f.msg.Header.Set(HeaderOperation, OpDelete)\n\t\tf.msg.Header.Del(jetstream.ExpectedLastSubjSeqHeader)"},
		}, onNATS("^TestConformance$/^Ours$")},
		{6, "the same, in memory", []edit{
			{"store/memstore/memstore.go", "at != w.Expected {", "at != w.Expected && !w.Tombstone {"},
		}, check{pkg: "store/memstore", run: "^TestConformance"}},
		{7, "the release does not wait for the work", []edit{
			{machine + "hold.go", "case c.now.Mono >= c.s.DrainBy:", "case c.now.Mono >= c.s.DrainBy || true:"},
		}, simulated("300")},
		{8, "a challenge by the own TTL", []edit{
			{machine + "watch.go", "return c.m.wait(c.s.HeldTTL)", "return c.m.wait(c.m.TTL)"},
		}, simulated("300")},
		{9, "a deletion is permission", []edit{
			{machine + "watch.go", "return c.m.wait(c.heldTTL())", "return 0"},
		}, simulated("300")},
		{10, "revisions of a bucket that is made again begin at 1", []edit{
			{nats + "bucket.go", "uint64(now.UnixMicro())", "1 + 0*uint64(now.UnixMicro())"},
		}, onNATS("^TestRevisionsContinueAboveADeletedBuckets$")},
		{10, "what is absent may be created whatever was there", []edit{
			{"store/memstore/memstore.go", "at != w.Expected {", "at != w.Expected && (w.Expected != 0 || !s.state(w.Key).Tombstone) {"},
		}, check{pkg: "store/memstore", run: "^TestConformance"}},
		{11, "a token is validated by reading", []edit{
			{engine + "validation.go", "asked := c.clock.now().Mono\n", "asked := c.clock.now().Mono\n\tif entry, err := c.store.Get(ctx, c.cfg.Group); err == nil && bytes.Contains(entry.Value, []byte(term.Token)) {\n\t\treturn nil\n\t}\n"},
			{engine + "validation.go", "import (\n", "import (\n\t\"bytes\"\n"},
		}, root("TestValidationIsARenewalSentAfterTheCall")},
		{12, "a write of a holder's record expects nothing", []edit{
			{nats + "internal/wire/message.go", "f.msg.Header[jetstream.ExpectedLastSubjSeqHeader] =", "f.msg.Header[\"X-Expected\"] ="},
		}, onNATS("^TestConformance$/^Ours$")},
		{13, "the monotonic clock alone", []edit{
			{machine + "time.go", "return now.Mono >= i.Mono || now.Wall >= i.Wall", "return now.Mono >= i.Mono"},
		}, simulated("300")},
		{14, "a claim that is granted after its window leads", []edit{
			{machine + "claim.go", "if c.s.Grant.Trust.Reached(c.now) {\n\t\tc.lose(Exit{Reason: ReasonLate})", "if false {\n\t\tc.lose(Exit{Reason: ReasonLate})"},
		}, traces("")},
		{15, "a guard ends its program when the lease is over, and not before", []edit{
			{"cmd/leader/internal/runner/guard/limits.go", "return until - int64(l.Margin)", "return until + int64(l.Margin)"},
		}, check{pkg: "cmd/leader/internal/runner/guard", run: "^TestTheLastKillComesBeforeTheWindowCloses$"}},
		{16, "a renewal is accepted after the window has closed", []edit{
			{machine + "step.go", "c.s.Phase == Holding && c.s.Grant.Trust.Reached(c.now)", "c.s.Phase == Holding && c.s.Grant.Trust.Reached(c.now) && c.ev.Kind != Written"},
		}, simulated("300")},
		{17, "a tombstone is read, and then written over", []edit{
			{nats + "write.go", "ctx, cancel := s.bounded(ctx)\n\tdefer cancel()\n\tfor attempt", "ctx, cancel := s.bounded(ctx)\n\tdefer cancel()\n\tif e, err := s.Get(ctx, w.Key); err == nil && e.Tombstone {\n\t\tw.Expected = e.Revision\n\t}\n\tfor attempt"},
		}, onNATS("^TestConformance$/^Ours$")},
	}
}

// stranded are the bugs that leave a group without a leader.
func stranded() []mutant {
	return []mutant{
		{18, "one failed call ends the way into an election", []edit{
			{engine + "storeio.go", "if e.ctx.Err() != nil {\n\t\t\treturn false\n\t\t}\n\t\tif lasting", "if e.ctx.Err() != nil || err != nil {\n\t\t\treturn false\n\t\t}\n\t\tif lasting"},
		}, root("TestStoreThatCannotBeReachedIsAwaited|TestWatchThatCannotBeSetUpIsTriedAgain")},
		{18, "one refused claim ends campaigning", []edit{
			{machine + "write.go", "\tc.note(NoteFailed)\n\tif n := c.m.Retry.MaxAttempts", "\tif w.Kind == Acquire && c.ev.Outcome == Permanent {\n\t\tc.finish()\n\t\treturn\n\t}\n\tc.note(NoteFailed)\n\tif n := c.m.Retry.MaxAttempts"},
		}, root("TestPermanentFaultOfARunningElectionIsReportedAndRetriedWithPatience")},
		{19, "a consumer that was lost is not made again", []edit{
			{nats + "internal/sources/consumer.go", "\t\tif !s.waiting(f) { // else its", "\t\tif false { // else its"},
			{nats + "hub.go", "\tif n := h.nc.Stats().Reconnects; n != h.reconnects {", "\tif n := h.nc.Stats().Reconnects; n != h.reconnects && false {"},
		}, onNATS("^TestConformance$/^Foreign$/^WatchRepeatsThePresentStateAfterAnInterruption$")},
		{19, "what was missed during a lost connection is not read", []edit{
			{nats + "hub.go", "\tif n := h.nc.Stats().Reconnects; n != h.reconnects {", "\tif n := h.nc.Stats().Reconnects; n != h.reconnects && false {"},
		}, onNATS("^TestConformance$/^Ours$/^WatchRepeatsThePresentStateAfterAnInterruption$")},
		{20, "a record that nobody renews is left to the server to remove", []edit{
			{machine + "watch.go", "return c.m.wait(c.s.HeldTTL)", "return 1000 * c.m.MaxTTL"},
		}, simulated("20")},
		{21, "followers wait for news alone", []edit{
			{machine + "state.go", "wake = min(wake, max(s.DueAt, s.StandBackUntil))", "wake = min(wake, Never)"},
		}, simulated("20")},
		{22, "any lease length is believed", []edit{
			{machine + "config.go", "if ttl > m.MaxTTL {", "if ttl > 1<<62 {"},
		}, simulated("300")},
		{23, "a candidate that was barred once stays so", []edit{
			{machine + "step.go", "c.s.Barred &^= c.ev.Bars", "c.s.Barred &^= c.ev.Bars & Uninformed"},
		}, simulated("20")},
		{24, "Stop in a callback waits for the callback", []edit{
			{engine + "queue.go", "return id != 0 && id == goid.Current()", "return id == 1<<60 && id == goid.Current()"},
		}, root("TestCallsFromWithinCallbacksDoNotDeadlock")},
		{24, "Stop in a hook waits for the hook", []edit{
			{engine + "loop.go", "return id != 0 && id == goid.Current()", "return id == 1<<60 && id == goid.Current()"},
		}, root("TestStopAndResignFromAHookDoNotDeadlock")},
		{25, "only the leader is ready", []edit{
			{"probe/probe.go", "passes(e.Alive(ctx))", "passes(errors.Join(e.Alive(ctx), map[bool]error{false: leader.ErrNotStarted}[e.IsLeader()]))"},
		}, check{pkg: "probe", run: "^TestReadinessFollowsStartAndStopAndNotLeadership$"}},
		{26, "a clean end leaves the record to expire", []edit{
			{machine + "step.go", "c.s.Stopping, c.s.Leave = true, leave", "c.s.Stopping, c.s.Leave = true, leave || c.s.Phase == Holding"},
		}, traces("03")},
	}
}

// untrue are the bugs by which callbacks, metrics and numbers report a wrong
// state.
func untrue() []mutant {
	return []mutant{
		{27, "a loss is reported without a gain", []edit{
			{machine + "hold.go", "if !c.s.Grant.Promoted {\n\t\tc.s.Phase = Draining", "if false {\n\t\tc.s.Phase = Draining"},
		}, simulated("20")},
		{27, "each callback has a separate goroutine", []edit{
			{engine + "queue.go", "\tq.calls = append(q.calls, queuedCall{kind, do})\n", "\tgo do()\n\tdo = func() {}\n\tq.calls = append(q.calls, queuedCall{kind, do})\n"},
		}, root("TestCallbacksComeInOrderAndAlternate|TestCallbacksRunInTheOrderOfTheirRegistration|TestOnDemoteWaitsForAnOnPromoteThatLasts")},
		{28, "the context survives the term", []edit{
			{engine + "trust.go", "w.cancel(w.loss(w.term, r))", "_ = r"},
		}, check{pkg: "internal/engine", run: "^TestTermContextEndsWithoutAnybodyLooking$"}},
		{29, "a loss is not reported", []edit{
			{machine + "hold.go", "\tc.do(Action{Kind: Demote, Reason: x.Reason})\n", ""},
		}, simulated("20")},
		{30, "a panic in a callback is the program's", []edit{
			{"internal/shield/shield.go", "report(recover(), debug.Stack())", "report(nil, debug.Stack())"},
		}, root("TestPanicInPromoteEndsTheTermAndAnotherLeads")},
		{31, "a call is timed from its answer", []edit{
			{engine + "storeio.go", "\tm := &struct {", "\tsent = time.Now()\n\tm := &struct {"},
		}, root("TestRenewalWithoutAnAnswerIsResolvedAndTheTermGoesOn|TestConnectionTimeoutBoundsEveryCall|TestHooksRunInOrderWithTheirContent")},
		{31, "a second registration panics", []edit{
			{"leaderprom/leaderprom.go", "if err := reg.Register(collector{m, describe()}); err != nil {\n", "reg.MustRegister(collector{m, describe()})\n\tif err := error(nil); err != nil {\n"},
		}, check{pkg: "leaderprom", run: "^TestASecondRegistrationIsAnError$"}},
		{32, "a write in flight has no separate class", []edit{
			{nats + "errors.go", "return errInFlight\n\tcase codeStoreFailed", "return store.ErrConflict\n\tcase codeStoreFailed"},
		}, onNATS("^(TestWriteInFlightAloneCausesNoConflict|TestInFlightRefusalsEndAsTransient)$")},
		{33, "a renewal begins a new number", []edit{
			{machine + "hold.go", "c.s.Grant.Renewal++\n", "c.s.Grant.Renewal++\n\tc.s.Grant.Term = rev\n"},
		}, simulated("20")},
		{33, "tokens are compared for order", []edit{
			{"status.go", "return t.Number > last.Number || t == last && !t.IsZero()", "return t.Token >= last.Token"},
		}, root("TestTermSupersedesLargerNumbersAndItself")},
	}
}

// costly are the bugs that cost what an election should not.
func costly() []mutant {
	return []mutant{
		{34, "followers poll", []edit{
			{engine + "storeio.go", "w, ok := e.store.st.(store.Watcher)\n\tif !ok {", "w, ok := e.store.st.(store.Watcher)\n\tif ok {\n\t\tgo s.poll()\n\t}\n\tif !ok {"},
		}, root("TestFollowersDoNotPoll")},
		{35, "a lost race widens no window", []edit{
			{machine + "contention.go", "\tc.s.Window = min(max(2*c.s.Window, contentionTrips*took), c.m.TTL/windowShare)\n", "\t_ = took\n"},
		}, core("TestALostRaceWidensTheWindow")},
		{35, "the race of a start widens the window", []edit{
			{machine + "claim.go", "counts, took := seen.Kind == Held && c.s.HeldTTL > 0,", "counts, took := seen.Kind == Held,"},
		}, core("TestALostRaceWidensTheWindow")},
		{35, "a winner that comes late narrows no window", []edit{
			{machine + "contention.go", "\tif c.now.Mono-c.s.FreeAt < int64(c.s.Window/2) {\n", "\tif c.s.Window >= 0 {\n"},
		}, core("TestAWinnerThatComesLateNarrowsTheWindow")},
		{35, "a winner that comes early narrows the window", []edit{
			{machine + "contention.go", "\tif c.now.Mono-c.s.FreeAt < int64(c.s.Window/2) {\n", "\tif c.s.Window < 0 {\n"},
		}, core("TestAWinnerThatComesLateNarrowsTheWindow")},
		{35, "all challenge an expired lease at once", []edit{
			{machine + "contention.go", "return backoff.Skewed(unit(c.ev.Rand), c.within(max(min(expiryWindow, c.m.TTL/expiryShare), c.s.Window)))", "return 0"},
		}, core("TestAResumedGroupIsClaimedInOrder")},
		{35, "all delays have equal chances", []edit{
			{"internal/backoff/backoff.go", "math.Log1p(unit*(crowd-1)) / math.Log(crowd)", "unit * math.Log(crowd) / math.Log(crowd)"},
		}, core("TestFewClaimHoweverMany")},
		{36, "each watch has a goroutine", []edit{
			{nats + "owner.go", "\tif !wide {\n", "\tif !wide && h == nil {\n"},
		}, onNATS("^TestAThousandWatchesShareOneGoroutine$")},
	}
}

// reviewed are mistakes that an outside review put in, and that passed.
func reviewed() []mutant {
	return []mutant{
		{37, "trust is a nanosecond too long", []edit{
			{machine + "time.go", "return ttl - margin(ttl, drift)", "return ttl - margin(ttl, drift) + 1"},
		}, margins()},
		{37, "a challenge is a nanosecond too early", []edit{
			{machine + "time.go", "return ttl + margin(ttl, drift)", "return ttl + margin(ttl, drift) - 1"},
		}, margins()},
		{37, "a cool-down by the own lease alone", []edit{
			{machine + "claim.go", "ttl := max(c.m.TTL, c.s.HeldTTL)", "ttl := c.m.TTL"},
		}, core("TestACoolDownLastsAsLongAsTheLongestLeaseSeen")},
		{37, "a start in a store that was made again is not doubted", []edit{
			{machine + "step.go", "if c.ev.Doubt > 0 {", "if false {"},
		}, margins()},
		{37, "one old read ends a release", []edit{
			{machine + "write.go", "const staleReads = 3", "const staleReads = 1"},
		}, core("TestStaleReadDoesNotEndARelease")},
		{37, "a repeated report of a lost connection restarts the grace", []edit{
			{machine + "step.go", "if !c.s.Down {\n", "if c.s.Phase != Idle {\n"},
		}, core("TestARepeatedDisconnectionDoesNotRestartTheGrace")},
		{37, "a term begins although the grace is over", []edit{
			{machine + "hold.go", "func (c *step) hold() {\n\tif g", "func (c *step) hold() {\n\tif c.s.Grant.Sent.Mono >= c.s.Grant.PromoteAt && !c.s.Grant.Promoted {\n\t\tc.s.Grant.Promoted = true\n\t\tc.do(Action{Kind: Promote, Reason: c.s.Reason})\n\t}\n\tif g"},
		}, core("TestAGrantDuringALongDisconnectionIsNotPromoted")},
		{37, "a candidate with a grace claims without its connection", []edit{
			{machine + "state.go", "cutOff := s.Down && m.DisconnectGrace > 0", "cutOff := false"},
		}, simulated("300")},
		{37, "a write that is given up stays under way", []edit{
			{machine + "write.go", "\tw.Stage = NoStage // whatever follows: nothing of it is under way\n", ""},
		}, core("TestAWriteThatIsGivenUpIsNotUnderWay")},
		{37, "what was seen after the window is vacated", []edit{
			{machine + "hold.go", "(seen.Kind == Bare || seen.Kind == Malformed) && !c.s.Grant.Trust.Reached(c.now)", "seen.Kind == Bare || seen.Kind == Malformed"},
		}, core("TestRecordSeenAfterTheWindowIsNotVacated")},
		{37, "a new claim keeps the old term", []edit{
			{machine + "claim.go", "Nonce: c.ev.Nonce, Settled", "Term: c.s.Grant.Term, Settled"},
		}, simulated("300")},
	}
}

// reviewedOutside are mistakes that an outside review put in, or would, around
// the core: in the runtime, the store and the command.
func reviewedOutside() []mutant {
	return []mutant{
		{37, "what the watch repeats is taken for a store that went back", []edit{
			{engine + "loop.go", "&& entry.Revision >= l.observed", "&& entry.Revision > l.observed"},
		}, root("TestRepeatedEntryOfTheWatchIsNotARegression")},
		{37, "a vacancy is written before the callbacks have returned", []edit{
			{engine + "loop.go", "\t\tdefer l.inbox.event(machine.Event{Kind: machine.Drained})\n", ""},
			{engine + "loop.go", "\tl.ending, l.undrained = nil, true\n", "\tl.ending, l.undrained = nil, true\n\tl.inbox.event(machine.Event{Kind: machine.Drained})\n"},
		}, root("TestWorkStopsBeforeTheReleaseHoweverTheTermIsLeft")},
		{37, "no alarm rings at the end of a window that a suspension hid", []edit{
			{engine + "trust.go", "w.alarm = c.alarm(func() { guard(w.expire) })", "w.alarm = nil"},
		}, root("TestSuspensionPastTheWindowEndsWhatDescendsFromTheTermsContext")},
		{37, "a young store is not doubted", []edit{
			{engine + "config.go", "return max(machine.Wait(c.TTL, c.ClockDrift)-age, 0)", "return 0"},
		}, root("TestYoungStoreDelaysThePromotionUntilItIsALeaseOld")},
		{37, "a crash leaves the window open", []edit{
			{engine + "env.go", "w.close(leadership.ReasonCrashed)", "_, _ = w, leadership.ReasonCrashed"},
		}, check{pkg: "internal/engine", run: "^TestAPanicBesideAStuckGoroutineClosesTheWindowAtOnce$"}},
		{37, "a panic of a hook is ours", []edit{
			{engine + "report.go", "hook(name string, f func()) { shield.Call(f, r.panicked(name)) }", "hook(_ string, f func()) { f() }"},
		}, root("TestPanicOfAHookIsReportedAndTheElectionGoesOn")},
		{37, "a term that one step began and ended is reported to the program", []edit{
			{engine + "loop.go", "\tif w := l.current.Load(); w != nil {\n\t\tl.callbacks.ofTerm(", "\tif w := l.current.Load(); true {\n\t\tl.callbacks.ofTerm("},
		}, check{pkg: "internal/engine", run: "^TestNoListOfActionsBreaksTheRuntime$"}},
		{37, "news go the way of terms", []edit{
			{engine + "callbacks.go", "c.news.put(kind,", "c.terms.put(kind,"},
		}, root("TestBlockingOnLeaderChangeDoesNotDelayOnPromote")},
		{37, "a twin of one name is not warned of", []edit{
			{engine + "peers.go", "return seen.Rec.Renewal >= n.base+2", "return false"},
		}, root("TestTwoCandidatesOfOneNameAreNoticed")},
		{37, "a process that may not be signalled is taken for one that has ended", []edit{
			{"cmd/leader/internal/runner/process/tree_linux.go", "errors.Is(err, unix.EPERM) && !p.dead", "errors.Is(err, unix.EPERM) && false"},
		}, check{pkg: "cmd/leader/internal/runner/process", run: "^TestAProcessThatMayNotBeSignalledIsNotTakenForGone$"}},
		{37, "the age of a bucket is not reported", []edit{
			{nats + "check.go", "report.Age = age(info)", "_ = age(info)"},
		}, onNATS("^TestBucketMadeAgainIsNew$")},
	}
}

// carried are mistakes of the proxy.
func carried() []mutant {
	siege := check{pkg: "test/labs/proxy", run: "^TestNoRequestIsSentToAFormerLeader$", args: "-seed=2"}
	return []mutant{
		{38, "a former leader's connections are never cut", []edit{
			{"proxy/route.go", "\t\tl.cut()\n", "\t\t_ = l\n"},
		}, siege},
		{38, "they are cut when the next leader may have some already", []edit{
			{"proxy/route.go", "\t}\n\tr.cut(old, &r.count.cut)\n", "\t}\n\tr.deposed[old] = time.AfterFunc(300*time.Millisecond, func() { r.end(old) })\n"},
		}, siege},
	}
}

// reviewedLabs are mistakes that a review of the labs put in, and that passed.
func reviewedLabs() []mutant {
	return []mutant{
		{39, "a panic of the store is reported as a write that never left", []edit{
			{engine + "guard.go", "the store's %s panicked\", store.ErrUnknown, method)", "the store's %s panicked\", store.ErrTransient, method)"},
		}, root("TestLeaseCountsFromTheWriteWhoseCallPanicked")},
		{39, "a term begins beside a crash that found no window to close", []edit{
			{engine + "loop.go", "if l.crashed() { // and crash", "if false { // and crash"},
		}, check{pkg: "internal/engine", run: "^TestATermThatBeginsBesideACrashIsOverAtOnce$"}},
		{39, "what is due comes before what has arrived", []edit{
			{engine + "loop.go", "\tl.takeMessages()\n\tl.step(&machine.Event{Kind: machine.Tick})", "\tl.step(&machine.Event{Kind: machine.Tick})"},
		}, root("TestStalledFollowerTakesInTheRenewalsBeforeItChallenges")},
		{39, "a vacancy comes before the pause that led to it", []edit{
			{engine + "loop.go", "\tif control != nil {\n\t\tl.observeControl(*control)\n\t}\n\tif group != nil {\n\t\tl.observe(group)\n\t}\n", "\tif group != nil {\n\t\tl.observe(group)\n\t}\n\tif control != nil {\n\t\tl.observeControl(*control)\n\t}\n"},
		}, root("TestStalledFollowerTakesInAPauseBeforeItClaims")},
		{39, "a candidate campaigns before it obeys the pause of which it has just heard", []edit{
			{engine + "control.go", "\tl.pause(c.Paused)\n", "\tl.unbar(machine.Uninformed)\n\tl.pause(c.Paused)\n"},
		}, root("TestCandidateThatStartsInAPausedGroupWritesNothing")},
		{39, "the latest stop decides what becomes of the record", []edit{
			{engine + "candidate.go", "\tif first {\n\t\t// The first stop", "\tif true {\n\t\t// The first stop"},
		}, root("TestFirstStopDecidesWhatBecomesOfTheRecord")},
		{39, "a leader hands over to any candidate that asks to take over", []edit{
			{engine + "takeover.go", "served && cfg.VersionPolicy.Outranks(standingOf(s), cfg.Standing)", "served"},
		}, root("TestLeaderJudgesRequestsToTakeOver")},
		{39, "a holder is taken over before it leads", []edit{
			{engine + "control.go", "l.state.Grant.Promoted && l.grants(", "l.grants("},
			{engine + "loop.go", "if l.state.Grant.Promoted && !before.promoted {", "if l.state.Phase == machine.Holding && before.phase != machine.Holding {"},
		}, root("TestTakeoverWaitsForTheCoolDown")},
		{39, "a late resignation ends whatever term there is", []edit{
			{engine + "candidate.go", "machine.Event{Kind: machine.Asked, Term: term, Exit: x}", "machine.Event{Kind: machine.Leave, Term: term, Exit: x}"},
		}, check{pkg: "internal/engine", run: "^TestALateResignationEndsNoLaterTerm$"}},
		{39, "a worker is missed no sooner than after the leader's own lease", []edit{
			{"tasks/internal/core/leader.go", "return min(w.presence.Lease, MaxTimeout)", "return max(min(w.presence.Lease, MaxTimeout), cfg.Lease)"},
		}, check{pkg: "tasks/internal/core", run: "^TestAWorkerIsMissedWhenItsOwnLeaseEnds$"}},
		{39, "a worker that was held up begins what it is to end", []edit{
			{"tasks/internal/core/worker.go", "i >= 0 {\n\t\tw.starts = slices.Delete", "i < -1 {\n\t\tw.starts = slices.Delete"},
		}, check{pkg: "tasks/internal/core", run: "^TestSimulation$"}},
	}
}

// covers are the bugs of other libraries' interfaces that ours has no place
// for.
func covers() []cover {
	return []cover{
		{20, "The library never writes with a TTL of the server, so there is none to be dropped; a bucket that would expire leases is refused.",
			onNATS("^TestCheck$")},
		{19, "A consumer for each watch, or one more with each reconnection, would show in the count of the server's consumers.",
			onNATS("^TestPatternWatchOfTenThousandKeysTakesOneGoroutineAndOneConsumerAtMost$")},
		{31, "Labels come from the configuration; a role that is removed leaves no series.",
			check{pkg: "leaderprom", run: "^(TestARoleThatIsRemovedLeavesNoSeries|TestAStoppedElectionLeavesNoSeries)$"}},
	}
}

// bugs are the bugs that the field has had, in a few words. The mutations in
// internal/machine have the same numbers.
var bugs = [...]string{
	1:  "Validity counted from the acknowledgement (client-go)",
	2:  "IsLeader goes by a flag or an identity and ignores expiry (client-go and others)",
	3:  "No margin for the rates of clocks, or on one side only",
	4:  "An unanswered write adopted as of its read-back",
	5:  "A releaser takes its own record for a new grant",
	6:  "Unconditional delete at the stop",
	7:  "Release before the work has stopped",
	8:  "Takeover by the challenger's own TTL (kubernetes#47671)",
	9:  "A deletion or the server's expiry taken as permission",
	10: "Absence has no revision; revisions come again with a new bucket",
	11: "A token validated by reading",
	12: "Renewal without an expected revision, acquisition by Put",
	13: "A suspended machine: the monotonic clock stopped",
	14: "Acquired after the own lease had expired (etcd)",
	15: "A child process killed long after the lock was lost (consul lock)",
	16: "A renewal accepted after the own window had closed",
	17: "Create reads a tombstone and writes without its revision (nats.rs#1301)",
	18: "One failed call ends campaigning",
	19: "A watch that dies is not made again, or leaks",
	20: "A record that became immortal (nats.go#1994)",
	21: "Expiry sends no event, and followers only watch",
	22: "A far-future TTL blocks the election",
	23: "A paused or unhealthy candidate never campaigns again",
	24: "Deadlock: Stop in a callback, a stop that waits for itself",
	25: "Readiness tied to leadership",
	26: "A clean exit without a release",
	27: "Callbacks without their counterpart or out of order",
	28: "The context survives the demotion (ali-assar)",
	29: "A loss is never reported (dynamolock#446)",
	30: "A panic in a callback takes the process down",
	31: "Latency after the wait, double registration, labels without bound",
	32: "Conflicts recognised by one code only",
	33: "Tokens compared for order; numbers that grow at renewals",
	34: "Followers poll",
	35: "A herd at each vacancy",
	36: "A consumer and goroutines for each election",
	37: "Bugs that an outside review put in, and our labs had passed",
	38: "Connections go on to a leader of before",
	39: "Bugs that a review of the labs put in, and they had passed",
}
