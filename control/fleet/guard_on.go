//go:build !unreread && !unsheltered

package fleet

// The two guards of a scale-in. Each has a build tag that takes it out, for the test that shows what it is for.
const (
	// rereads: the demand is read again after fewer workers were asked for.
	rereads = true
	// shelters: there are never fewer workers than hold leases.
	shelters = true
)
