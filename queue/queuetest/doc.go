// Package queuetest is for the tests of programs that use the package queue: a Redis in memory, in whose presence time is free, and
// assertions about jobs. It needs no redis-server, no network and no waiting.
//
//	func TestMailIsTriedForThreeHours(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			r := queuetest.New(t)
//			q := r.Queue(t, "mail")
//			r.Work(t, r.WorkerOptions("mail"), mailHandler)
//
//			added, err := q.Add(t.Context(), "welcome", mail, queue.JobOptions{
//				Attempts: 8, Backoff: &queue.Backoff{Type: "exponential", Delay: 85 * time.Second},
//			})
//			…
//			r.AwaitState(t, q, added.ID, queue.StateCompleted, 3*time.Hour) // takes some tenths of a second
//		})
//	}
//
// # Time
//
// In a bubble of testing/synctest the clocks of the server, of the workers and of the test are one clock, which jumps to the next thing
// that is due whenever all goroutines wait. Delays, backoff, lock lifetimes, rate limits, schedules and blocking reads need no real time,
// then, and their order is the same at each run. [Advance] lets time pass, [Redis.AwaitState] and [Redis.Await] wait for something to
// come true. An idle worker asks every ten seconds of the bubble's time at the latest; a virtual day of it costs some seconds of a processor.
//
// Everything of a test has to live in the bubble: make the Redis in it, with the bubble's t. [Redis.Work] ends its worker with the test;
// whoever runs a worker, events or results by hand has to end them before the bubble's function returns. A time zone's rules hold in
// bubbles, too; their clock starts at midnight UTC of 1 January 2000.
//
// Without a bubble the server works as well, by the clock on the wall.
//
// # Truth
//
// The scripts that run are those of the package queue, and a test of this package runs the same scenes on it and on a real redis-server
// and compares all keys and events. What differs from a real server:
//
//   - An event stream is trimmed to its bound exactly; Redis lets some more entries stay.
//   - A key is gone at the very millisecond in which its time is over; Redis keeps it for that one.
//   - Scripts in transactions, publish and subscribe, and other blocking calls than those of the package queue are not there.
//   - It is one server: no cluster, no sentinel, no users and rights.
//   - It is not made for speed, and has no persistence.
package queuetest
