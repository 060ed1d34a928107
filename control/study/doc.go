// Package study shows what an idempotency ledger is worth and what it costs, in figures that anybody can reproduce: a model of
// shipment events that are delivered once or several times (Model), the cost of keeping keys for a while (Load), the model's days on a
// real store (Measure), and, by package rig, days whose repeats arise for real (Real).
//
// The model's question is the scope of the key, which decides everything: what makes two events distinct in terms of the business?
// A key that is too narrow swallows events that are different, a key that is too wide lets repetitions through, and no key at all
// bills a parcel twice.
package study
