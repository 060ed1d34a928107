// Package store keeps the control plane's state: analyses, leases, artifacts, results, the outbox and the timeline,
// in SQLite or in Postgres behind one interface. Both run the same statements and pass the same suite (storetest).
//
// # Life of an analysis
//
//	            submit            redeem                 pose.completed
//	uploading ─────────▶ queued ─────────▶ processing ──────────────────▶ delivered
//	    │                 ▲   │              │  │  ▲    pose.failed
//	    │                 │   │   release    │  ├──┼─────────────────────▶ failed
//	    │                 └───┼──────────────┘  │  └── a person retries the job that failed ──┘
//	    └── cancel ──┐        │ cancel          │ cancel
//	                 ▼        ▼                 ▼
//	                            cancelled
//
// delivered, failed and cancelled are terminal. Nothing leaves delivered or cancelled. failed is left when a person wants
// it: through Retry, or by retrying the failed job in the queue, which starts again with a higher attempt; then the
// analysis runs again under a new epoch, in a new round. A job that starts again because the queue never heard of the
// failure – its worker died between its report and the end of its job – is told that the analysis is over: see
// retriedByPerson for how the two are told apart.
//
// # Who may write what
//
// The lease (claim, epoch, holder, end) decides who works; it may be late. Which result counts is decided by one
// compare-and-set in RecordResult, and by nothing else:
//
//   - A completed result counts if the analysis is not terminal, whichever epoch made it. An analysis never changes
//     its clips or parameters, so the work of a holder that lost its lease is as good as that of the newer one, which
//     concedes at its next renewal or at its own report. Refusing it would only buy a second computation.
//   - A failed result counts only if it comes from the current epoch. A former holder's failure says nothing about
//     the execution that replaced it (its lock was lost, its disk was full), so it can't end the analysis.
//   - An interruption counts only from the current epoch, since it gives back the lease of that epoch.
//   - Nothing counts over a terminal row: the loser is told what was delivered and concedes.
//
// The webhook id of a result is recorded in the transaction of its effect: a repeat finds either both or neither.
//
// # Time
//
// All times come from Options.Now, as milliseconds since 1970 in the tables, so that both databases sort and index
// them alike and a test can move them.
package store
