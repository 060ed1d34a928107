// Package protocol holds the names and payload shapes that posefleet's parts, and the Node services around
// them, exchange: the claim-check job, claims, results, the worker's HTTP door, the extractor's messages, ids
// and error codes.
//
// It is the leaf of the project: standard library only, and nothing of ours. The JSON Schemas in schemas/ are
// the source of truth for the wire; the Go types here, the generated TypeScript in ts/ and the shared fixtures
// in fixtures/ are held to them by tests, so that drift fails the build. Signing lives in protocol/webhook.
//
// Unknown fields are ignored by every reader unless a type says otherwise, so that both sides of a rolling
// deploy can read each other one version both ways.
package protocol
