package protocol

// A hint is an event that a control plane writes beside the job queue when it is worth asking at once instead of at the next renewal, as when
// an analysis was cancelled. It decides nothing: a worker that gets one renews its lease, and the answer says what holds. One that misses
// it learns the same later. The stream is that of a queue of its own, so that no worker has to read the events of all jobs:
//
//	<prefix>:<queue>:control:events   event=renew jobId=<analysis id>
const (
	// HintQueue is the name of the queue, HintRenew that of the event.
	HintQueue = "control"
	HintRenew = "renew"
)

// HintPrefix is the key prefix of the hints of a job queue.
func HintPrefix(prefix, queue string) string { return prefix + ":" + queue }
