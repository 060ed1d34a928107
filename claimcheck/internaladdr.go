package claimcheck

import "net/netip"

// IsInternal tells whether a client without Config.AllowInsecure refuses to connect to the address, because it lies
// outside the global unicast space. For tools that look at a deployment before a worker does.
func IsInternal(a netip.Addr) bool { return isInternal(a) }
