package parity

// Test names that many rows share.
const (
	golden    = "queue.TestGolden"
	different = "queue.TestDifferential"
	nodeAdds  = "queue.TestNodeAddsGoWorks"
	nodeWorks = "queue.TestGoAddsNodeWorks"
	commands  = "cmd/posefleet.TestQueueCommands"
)

// Areas of the table.
const (
	areaProduce = "Producers"
	areaFlow    = "Flows"
	areaPlan    = "Job schedulers"
	areaWork    = "Workers"
	areaSteer   = "Reading and steering"
	areaMixed   = "Fleets of both majors"
	areaPlace   = "Where it runs"
)

// Features is the table.
func Features() []Feature {
	var all []Feature
	for _, part := range [][]Feature{producers(), flows(), schedulers(), workers(), steering(), fleets(), places()} {
		all = append(all, part...)
	}

	return all
}

// everywhere is a feature that all the libraries are known to have.
func everywhere(area, name, probe string, tests ...string) Feature {
	return Feature{Area: area, Name: name, Probe: probe, Node6: Yes, Node5: Yes, Python: Yes, Rust: Yes, Go: Yes, Tests: tests}
}

// likeRust is a feature of Node that Rust's list has, too, and of which the other ports' documents were not read.
func likeRust(area, name, probe string, tests ...string) Feature {
	f := everywhere(area, name, probe, tests...)
	f.Python, f.Go = Unchecked, Unchecked

	return f
}

// inPython is likeRust for what Python's sources show as well.
func inPython(area, name, probe string, tests ...string) Feature {
	f := likeRust(area, name, probe, tests...)
	f.Python = Yes

	return f
}

// inGo is likeRust for what the official Go port's documentation says as well.
func inGo(area, name, probe string, tests ...string) Feature {
	f := likeRust(area, name, probe, tests...)
	f.Go = Yes

	return f
}

// onlyHere is what only package queue is known to have.
func onlyHere(area, name string, tests ...string) Feature {
	return Feature{Area: area, Name: name, Node6: No, Node5: No, Python: Unchecked, Rust: Unchecked, Go: Unchecked, Tests: tests}
}

func (f Feature) noting(note string) Feature {
	f.Note = note

	return f
}

func (f Feature) rust(m Mark) Feature {
	f.Rust = m

	return f
}

func (f Feature) node(six, five Mark) Feature {
	f.Node6, f.Node5 = six, five

	return f
}

func producers() []Feature {
	const a = areaProduce

	return []Feature{
		everywhere(a, "add", "b.Queue.prototype.add", golden, different, nodeWorks),
		inPython(a, "add in bulk", "b.Queue.prototype.addBulk", golden, different, nodeWorks),
		inGo(a, "delay, priority, LIFO", "", golden, different, nodeWorks),
		inGo(a, "custom ids", "", golden, different, "queue.TestCheckJobID").
			noting("posefleet also refuses ids that are names of the queue's own keys, which Node drops without a word"),
		everywhere(a, "attempts and backoff", "", golden, different, "queue.TestRetryDelay", nodeWorks),
		inGo(a, "keep rules: all, none, count, age", "", golden, different, "queue.TestKeepForms"),
		inGo(a, "default options of a queue", "Object.getOwnPropertyDescriptor(b.Queue.prototype, 'defaultJobOptions')", "queue.TestDefaults").
			rust(Unchecked),
		likeRust(a, "size limit", "", golden, "queue.TestBadOptionsAreRefused"),
		inPython(a, "deduplication", "", golden, different).
			noting("plain, for a time, extended, replacing, keeping the last; the ports' modes were not looked at"),
		likeRust(a, "deduplication that reschedules", "", different).rust(Unchecked).node(Yes, No),
		likeRust(a, "owner and end of a deduplication", "b.Queue.prototype.getDeduplicationJobId", "queue.TestDeduplicationOwner"),
		likeRust(a, "parent of a job", "", golden, "queue.TestWaitForChildren"),
		likeRust(a, "traces (tm, omc)", "b.TelemetryAttributes", golden, "queue.TestProducersLeaveTheirTrace", "queue.TestHandlersContinueTheTrace",
			"queue.TestTracesCrossLanguages").rust(No).noting("by a seam of two methods, with no dependency on OpenTelemetry"),
		onlyHere(a, "an add is repeated when its answer was lost, and tells its own job from another's", "queue.TestLostAnswerOfAdd"),
	}
}

func flows() []Feature {
	const a = areaFlow

	return []Feature{
		everywhere(a, "trees of jobs over several queues", "b.FlowProducer.prototype.add", golden, "queue.TestFlowAsNode", "queue.TestFlowsCrossLibraries"),
		likeRust(a, "several trees in one step", "b.FlowProducer.prototype.addBulk", "queue.TestFlowAsNode").rust(Unchecked),
		likeRust(a, "the four options for a failed child", "", golden, "queue.TestFlowAsNode"),
		likeRust(a, "children added by the running parent", "b.Job.prototype.moveToWaitingChildren", golden, "queue.TestWaitForChildren"),
		likeRust(a, "read a tree", "b.FlowProducer.prototype.getFlow", "queue.TestReadFlow", "cmd/posefleet/internal/queuecmd.TestFlow"),
		likeRust(a, "leave the parent", "b.Job.prototype.removeChildDependency", golden, "queue.TestLeaveParent"),
		likeRust(a, "remove the children that have not run", "b.Job.prototype.removeUnprocessedChildren",
			"queue.TestRemoveUnprocessedChildrenAsNode", "queue.TestRemoveUnprocessedChildrenFreesTheParent"),
		onlyHere(a, "a refused child undoes the whole tree", "queue.TestRefusedFlowLeavesNothing").
			noting("Node answers success and leaves a parent that waits for ever"),
		onlyHere(a, "a tree is not added twice when the answer was lost", "queue.TestFlowWhoseAnswerWasLost"),
	}
}

func schedulers() []Feature {
	const a = areaPlan

	return []Feature{
		everywhere(a, "every so often", "b.Queue.prototype.upsertJobScheduler", golden, "queue.TestUpsertAsNode", "queue.TestNextSlot"),
		likeRust(a, "cron patterns with a time zone", "", golden, "queue.TestUpsertAsNode", "queue/internal/cron.TestRandomPatternsAsCronParser").
			noting("read as cron-parser reads them"),
		likeRust(a, "limit, start and end", "", golden, "queue.TestScheduleGoesOn"),
		likeRust(a, "list, get, remove", "b.Queue.prototype.getJobSchedulers", golden, "queue.TestReadSchedulers",
			"cmd/posefleet/internal/queuecmd.TestSchedulerLife"),
		onlyHere(a, "a schedule goes on in the other language", "queue.TestSchedulesGoOnInTheOtherLibrary").node(Yes, Yes),
		onlyHere(a, "an upsert while the queue is paused makes no second job", "queue.TestUpsertWhilePaused").node(No, Yes),
		likeRust(a, "make repeatable jobs of major 5", "b.Queue.prototype.getRepeatableJobs").rust(No).node(No, Yes),
		onlyHere(a, "work on repeatable jobs of major 5, keeping their data", "queue.TestLegacyRepeatableKeepsItsData").node(No, Yes),
	}
}

func workers() []Feature {
	const a = areaWork

	return []Feature{
		inPython(a, "concurrency, locks renewed, stalled jobs taken back", "b.Worker.prototype.run", golden, "queue.TestWorkerWorks", "queue.TestKilledWorker",
			"queue.TestLongJobsKeepTheirLocks", nodeAdds),
		likeRust(a, "concurrency changed at run time", "Object.getOwnPropertyDescriptor(b.Worker.prototype, 'concurrency')", "queue.TestWorkerPause"),
		likeRust(a, "limiter", "", golden, "queue.TestLimiterAndPause"),
		likeRust(a, "rate limit by the handler", "b.Worker.RateLimitError", golden, "queue.TestRateLimitFor"),
		inPython(a, "global concurrency and rate limit", "b.Queue.prototype.setGlobalConcurrency && b.Queue.prototype.setGlobalRateLimit", golden,
			"queue.TestGlobalConcurrency", "cmd/posefleet/internal/queuecmd.TestLimits"),
		likeRust(a, "pause and resume of one worker", "b.Worker.prototype.pause", "queue.TestWorkerPause"),
		likeRust(a, "custom backoff, jitter", "", "queue.TestRetryDelay"),
		likeRust(a, "outcomes: unrecoverable, delay, put back, wait for children", "b.DelayedError && b.UnrecoverableError && b.WaitingError", golden,
			"queue.TestHandlerOutcomes", "queue.TestWaitForChildren"),
		likeRust(a, "most started attempts, most stalls", "", golden, "queue.TestDeferredFailure", "queue.TestManyStalled"),
		likeRust(a, "fetching by hand", "b.Worker.prototype.getNextJob", "queue.TestPuller"),
		likeRust(a, "metrics per minute", "b.Queue.prototype.getMetrics", golden, "cmd/posefleet/internal/queuecmd.TestMetrics"),
		everywhere(a, "cancel one job", "b.Worker.prototype.cancelJob", "queue.TestCancelJob"),
		inGo(a, "a lost lock ends the handler's context", "", "queue.TestLostLock", "queue.TestLockRunsOutByOwnClock").
			rust(Unchecked).node(No, No).noting("Node reports it and lets the processor go on"),
		onlyHere(a, "an outcome whose answer was lost is recognised", "queue.TestLostAnswers"),
		onlyHere(a, "capacity shared with other doors, and no wake-up lost", "queue.TestTwoDoors", "queue.TestWakeUpGoesBack"),
		likeRust(a, "processors in processes of their own", "b.ChildPool").rust(No).noting("a handler can start what it likes"),
	}
}

func steering() []Feature {
	const a = areaSteer

	return []Feature{
		inPython(a, "counts, jobs by state, logs, state of a job", "b.Queue.prototype.getJobs && b.Queue.prototype.getJobLogs", golden, commands,
			"cmd/posefleet/internal/queuecmd.TestStats", "cmd/posefleet/internal/queuecmd.TestJob"),
		inPython(a, "counts per priority", "b.Queue.prototype.getCountsPerPriority", different),
		inPython(a, "pause and resume", "b.Queue.prototype.pause", golden, different, "queue.TestResumeOfAnOldPause"),
		inPython(a, "promote, retry: one and all", "b.Queue.prototype.promoteJobs && b.Queue.prototype.retryJobs", golden, different, commands),
		likeRust(a, "change delay, priority, data", "b.Job.prototype.changePriority && b.Job.prototype.changeDelay", golden, different),
		inPython(a, "remove, drain, clean, obliterate", "b.Queue.prototype.obliterate", golden, different, commands),
		likeRust(a, "remove orphans", "b.Queue.prototype.removeOrphanedJobs", "queue.TestRemoveOrphans").rust(No),
		inPython(a, "list connected workers, of any language", "b.Queue.prototype.getWorkers", nodeAdds, nodeWorks),
		everywhere(a, "events", "b.QueueEvents", "queue.TestEvents", "queue.TestOurEventsSeeNodes", "queue.TestNodesEventsSeeOurs"),
		onlyHere(a, "events lost by trimming are reported", "queue.TestEventsTellGaps", "cmd/posefleet/internal/queuecmd.TestEventsGoOn"),
		inPython(a, "events of one's own", "b.QueueEventsProducer", golden).rust(No),
		likeRust(a, "wait until a job has finished", "b.Job.prototype.waitUntilFinished", "queue.TestResultsOfFastJobs", "queue.TestResultsOfJobsThatGoAway",
			"cmd/posefleet/internal/queuecmd.TestWait").rust(No),
		likeRust(a, "numbers in Prometheus' form", "b.Queue.prototype.exportPrometheusMetrics", "queue.TestPrometheusTextAsNode"),
		onlyHere(a, "all of it on a command line", "cmd/posefleet.TestQueueUsage", commands, "cmd/posefleet/internal/queuecmd.TestSecondThoughts"),
		likeRust(a, "bull-board shows and steers its queues", "", "queue.TestBullBoard").rust(Unchecked),
	}
}

func fleets() []Feature {
	const a = areaMixed

	return []Feature{
		onlyHere(a, "jobs added by Node, worked here, and the other way round", nodeAdds, nodeWorks, "queue.TestNodeAndGoShareAQueue").node(Yes, Yes),
		onlyHere(a, "a worker killed on either side loses nothing", "queue.TestNodeTakesOverFromGo", "queue.TestGoTakesOverFromNode").node(Yes, Yes),
		onlyHere(a, "resume brings back what the other major's pause has moved", "queue.TestResumeOfAnOldPause", "queue.TestMixedPausesLoseNothing").
			node(Yes, No).
			noting("of the 27 orders of who pauses, adds meanwhile and resumes three lose jobs, whatever we do, since a resume by major 5 renames " +
				"one list over the other: paused by 5, added by 6, resumed by 5; paused by 6 or by us, added by 5, resumed by 5. Resume with major 6 or " +
				"posefleet"),
		onlyHere(a, "both majors' places of waiting jobs are counted and listed", "queue.TestResumeOfAnOldPause", "cmd/posefleet/internal/queuecmd.TestStats").
			node(No, Yes),
	}
}

func places() []Feature {
	const a = areaPlace

	return []Feature{
		likeRust(a, "Redis Cluster", "", "queue.TestCluster", "queue.TestClusterMovesABusyQueue", "queue.TestClusterLosesAnswers").rust(No),
		likeRust(a, "Sentinel", "", "queue.TestSentinelFailover", "queue.TestSentinelMasterDies").rust(No),
		likeRust(a, "TLS", "", "queue.TestTLS", "queue.TestTLSByOption", "queue.TestClusterOverTLS", "queue.TestSentinelOverTLS"),
		onlyHere(a, "a user with few rights, listed", "queue.TestLeastRights").node(Unchecked, Unchecked),
		onlyHere(a, "a test kit in memory, where time is free", "queue/queuetest.TestFaithful"),
		likeRust(a, "PostgreSQL instead of Redis", "b.PostgresConnection").rust(Unchecked).node(Yes, No).withGoPython(Yes, Yes),
	}
}

func (f Feature) withGoPython(golang, python Mark) Feature {
	f.Go, f.Python = golang, python

	return f
}
