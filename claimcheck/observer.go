package claimcheck

// Observer is told what happens, for metrics. Its methods are called from many goroutines and must not block.
// Labels are few and fixed; no label holds an id.
type Observer interface {
	// ClaimRequest is called once for each finished request to the control plane. Operation is redeem, renew,
	// release or artifact; result is ok or the name of a Kind.
	ClaimRequest(operation, result string)
	// CallbackTry is called for each try of a result: stored, already_delivered, conceded, gone, refused, retried.
	CallbackTry(result string)
	// Downloaded is called with the number of bytes as they arrive.
	Downloaded(bytes int64)
	// DownloadResumed is called when a download goes on or starts over: network, idle, short, status, changed,
	// refresh, range.
	DownloadResumed(reason string)
	// ClockSkew is called with the control plane's clock minus ours, in seconds, from its Date headers.
	ClockSkew(seconds float64)
}

// NopObserver ignores everything; embed it to implement a part of Observer.
type NopObserver struct{}

// ClaimRequest does nothing.
func (NopObserver) ClaimRequest(string, string) {}

// CallbackTry does nothing.
func (NopObserver) CallbackTry(string) {}

// Downloaded does nothing.
func (NopObserver) Downloaded(int64) {}

// DownloadResumed does nothing.
func (NopObserver) DownloadResumed(string) {}

// ClockSkew does nothing.
func (NopObserver) ClockSkew(float64) {}
