// Package control is the control plane: it knows the analyses, hands out their claims, takes their results, keeps their
// files and shows them.
//
// Three kinds of callers meet it. Workers redeem claims and post results, signed (claims.go, results.go); what they may
// do is decided in package store. Operators and the page create, submit, watch and cancel analyses (analyses.go,
// media.go, live.go, package page). Storage URLs are served by package storage where the storage is a folder.
//
// Each analysis has a durable run (package pipeline), which dispatches, waits and has what follows; the relay starts it.
//
// Two things run beside the server: the relay, which carries out what the store has written into its outbox (relay.go),
// and the keeper, which gives analyses of silent workers back and forgets what is too old to come again (keeper.go).
//
// # What if it happens twice, late, or not at all
//
//   - A submission sent twice is submitted once: the row moves from uploading to queued only once, and its dispatch is
//     written in the same transaction, by way of its run. A dispatch carried out twice adds one job, since the job's id is the analysis's.
//   - The process dies between commit and add: the relay finds the entry at the next start.
//   - A result comes twice, late or from a former holder: see package store.
//   - A worker of the HTTP door dies and nothing comes: its lease lapses and the keeper gives the analysis to the queue.
//     A worker of the queue dies: the queue's stalled check starts the job again, and the later start takes the lease over.
package control
