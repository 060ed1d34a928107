// Package worker is the long-running container: it takes claim-check jobs through two doors, the BullMQ queue and a
// signed HTTP endpoint, and turns each into a pose document in storage and a signed result at the control plane.
//
// The way of one run, whichever door it came through (engine.go):
//
//	redeem -> download -> extract -> upload -> report
//
// The rooms: config.go (environment), worker.go and life.go (start, drain, end), queuedoor.go and gate.go, httpdoor.go
// and replay.go (the two doors), runs.go (what runs here, by id), engine.go, stages.go and ending.go (one run), lease.go
// (claim kept alive), reach.go (a control plane that is away), report.go (results), journal.go (progress and job log),
// admin.go, queuewatch.go and metrics.go (what it says of itself), identity.go (worker id). Below internal: slots (the
// capacity that both doors share), extractor (supervision of the processes that do the work), scratch (disk), ecs (task
// protection and metadata); controltest and extractortest are a control plane and an extractor for tests.
//
// Who holds what: the queue's lock (Redis), the claim's lease (control plane) and the slot (memory) are held until
// the job is finished, the result is posted and the scratch folder is empty. Losing the lock or the lease cancels the
// run's context with its cause, which kills the extractor; nothing is posted or written after that.
package worker
