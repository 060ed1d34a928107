// Package pipeline is the durable run of an analysis: one function per round, whose steps are written down as they are done, so that an
// end of the process in any place costs the step that was under way and no more. DBOS keeps the steps: in a file beside the SQLite
// database, in a schema of its own in Postgres.
//
//	analysing ▶ wake ⟲ ▶ precheck ▶ dispatch ▶ await ⟲ ▶ persist ▶ report ▶ notify
//	                 └──────┬──────────┴─────────┘ ▲
//	                        └─ fault ─▶ fail ──────┘
//
// The run decides nothing about results: that is the compare-and-set of package store. It sees to it that what has to happen around it
// does: that the work is dispatched, that somebody has it, that a round ends in bounded time, and that the customer is told after
// everything else. The row is the truth, also about how far a run is: each step that has an effect has it in a transaction that finds out
// whether it was had before. So a step may run twice, and what DBOS remembers may be lost: the sweep begins such runs anew.
//
// # Rules for steps
//
//   - An id is never given to another step and never changed; the order of steps is never changed. testdata holds runs of former versions,
//     which the tests replay.
//   - A new step is Optional and off. A run keeps to the steps that were on when it began.
//   - What a step returns is kept with the run: ids and decisions, no URL, no result.
package pipeline
