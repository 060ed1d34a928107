// Package webhook signs and verifies messages by Standard Webhooks 1.0.0 (scheme v1, HMAC-SHA256), in both
// directions between worker and control plane, each with a secret of its own.
//
// The MAC is made and compared, in constant time, by the reference library. What that library leaves to its
// caller is done here and is stricter than it: several secrets on both sides, exactly one line for each header,
// a timestamp in plain whole seconds, a clock that can be set, and secrets that can't be printed by accident.
package webhook
