// Package conformance holds the tests of the whole: real Redis, real Node with BullMQ, the programs as they are built for shipping, real
// clips. Nothing here reaches into the programs; what is looked at is what operators, orchestrators and browsers see.
//
// The rooms: programs_test.go (builds the programs once), process_test.go (runs them), system_test.go (Redis, control plane, workers of
// one test), front_test.go (a proxy before the control plane that loses, delays and counts messages), node_test.go (the scripts below
// node/), extractor_test.go (an extractor whose work is a stopwatch, for tests that are not about poses). Each other file is one question.
//
// Tests that belong to a row of the table "cut after step k" (docs/guarantees.md) are named by it: TestCutAfterStep3….
package conformance
