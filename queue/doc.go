// Package queue is BullMQ in Go: it adds, works, reads and steers jobs in the same Redis keys as BullMQ's Node library, majors 5 and 6,
// so that producers, workers and dashboards of both languages share queues. It imports go-redis and nothing else that is heavy.
//
// # A tour
//
// A [Queue] is for producers and operators. [Queue.Add] stores a job; with [JobOptions].JobID a second job of that id is refused
// ([Added].Duplicate), which makes an add safe to repeat. [Queue.AddBulk] adds many in one round trip. [Queue.Job], [Queue.State],
// [Queue.Counts], [Queue.IDs], [Queue.Logs] and [Queue.Workers] look; [Queue.Pause], [Queue.Resume], [Queue.Retry], [Queue.Remove],
// [Queue.Drain] and [Queue.Clean] steer, and so do [Queue.Promote], [Queue.ChangeDelay], [Queue.ChangePriority], [Queue.UpdateData],
// [Queue.RetryAll], [Queue.PromoteAll], [Queue.RemoveOrphans] and [Queue.Obliterate]. [Queue.SetGlobalConcurrency],
// [Queue.SetGlobalRateLimit] and [Queue.RateLimit] bound all workers together; [Queue.Metrics] reads what they have done.
//
// A [Worker] takes jobs and calls a [Handler]. What the handler returns decides: nil completes the job, [Unrecoverable] fails it for
// good, [DelayFor], [PutBack] and [RateLimitFor] cost no attempt, any other error is a failed attempt, repeated as the job's Attempts
// and Backoff say. [Job.UpdateProgress] and [Job.Log] report.
//
//	o := queue.DefaultWorkerOptions()
//	o.RedisURL, o.Name = "redis://127.0.0.1:6379/0", "mail"
//	w, err := queue.NewWorker(o, func(ctx context.Context, j *queue.Job) (any, error) { … })
//	err = w.Run(ctx) // until w.Drain, or the end of ctx
//
// [Flows] adds trees of jobs, all of a tree or nothing: a job with children waits for them and then reads what they returned
// ([Job.ChildrenValues], [Job.Family]); the four …OnFailure options of a child say what its failure means to its parent. [Flows.Get] reads
// a tree. A running job can add children, too ([Job.Ref]), and wait for them by returning [WaitForChildren].
//
// [Queue.UpsertScheduler] makes jobs by the clock, every so often or by a cron pattern in a time zone. There is no clock process: whoever
// takes a scheduler's job, a [Worker] or Node's, makes the next one first. [Queue.Schedulers] lists, [Queue.RemoveScheduler] ends them.
//
// [Worker.Pause], [Worker.Resume] and [Worker.SetConcurrency] change a running worker. A [Puller] is for those who bring their own loop.
//
// [Events] reads what happens to all jobs of the queue, from now on or from a remembered place; [Event].Gap tells where the stream was
// trimmed before it was read. [Results] waits for jobs to finish, any number over one connection.
//
// The examples below show each of these at work: producers ([Queue.Add]), typed outcomes ([Worker]), trees ([Flows]), schedules
// ([Queue.UpsertScheduler]), events with resume ([Events]), results ([Results.Wait]), a loop of one's own ([Puller]), capacity that is shared
// with another door ([Slots]), and limits ([Queue.SetGlobalRateLimit]).
//
// # Tests
//
// The package queuetest, below this one, is a Redis in memory for tests. In a bubble of testing/synctest its time is free: three hours of
// retries take some tenths of a second, a year of a nightly schedule some seconds. It is reached through [Options].Dialer. Whoever
// imports this package only gets none of it.
//
// # What holds when things break
//
// A job that runs has a lock in Redis, renewed by one timer for all jobs on a connection of its own. If the lock is lost – Redis says so,
// or our own monotonic clock says that it must have run out – the handler's context ends with the cause [ErrLockLost] and nothing is
// written for the job any more, since another worker may have it. A job whose worker died comes back when its lock has run out and two
// stalled checks have met it; who stalls too often is failed by the next worker ([WorkerOptions].OnDeferredFailure).
//
// Nothing is retried blindly: the driver's own retries are off. A claim whose answer was lost is looked for by its token; a finish is
// tried again until it is written or the lock must be gone, and a second run that finds no lock asks the job's state whether the first
// one did it. Run lives through a Redis that restarts, fails over, refuses writes or hangs, and goes on within seconds.
//
// # Capacity
//
// A [Gate] hands out slots and may be shared by several workers and other doors. The worker takes a job in two steps: it waits for the
// queue's marker without a slot, and takes one only for the claim. If the slot has gone elsewhere meanwhile, the wake-up goes back to
// the queue, where another worker follows it.
//
// # How it is built
//
// Every transition is one script in lua/, with a header that names its arguments and answers; helpers in lua/include are joined to it
// when it is loaded. A script's only key is the queue's base, from which it makes all others, so on a Redis Cluster prefix or name needs
// a hash tag. keys.go knows all keys; fetch.go, execute.go, finish.go, locks.go and stalled.go are the worker's actors, one each.
// Redis 6.2 or later is needed. docs/queue-redis.md has the addresses of all kinds of Redis – standalone, TLS, Cluster, Sentinel – and the
// least rights of a user, role by role.
package queue
