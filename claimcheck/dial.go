package claimcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errAddress says that a name on the allow-list resolved to an address that nobody outside should reach.
var errAddress = errors.New("the host resolves to an internal address")

// dialFunc opens a connection; tests put one in that stays in memory.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newTransport returns a transport without proxy. With checked, the address behind each name is looked at after it
// was resolved and before it is connected to, so that no second answer of the DNS can get round the check.
func newTransport(connectTimeout time.Duration, checked bool, dial dialFunc) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	if checked {
		dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return checkAddress(address)
		}
	}
	if dial == nil {
		dial = dialer.DialContext
	}
	return &http.Transport{
		DialContext:            dial,
		TLSHandshakeTimeout:    connectTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        60 * time.Second,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
		// Stored bytes are wanted as they are stored: sizes, ranges and sums are about those.
		DisableCompression: true,
	}
}

// checkAddress returns errAddress for "ip:port" outside the global unicast space.
func checkAddress(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: not an address", errAddress)
	}
	if isInternal(ap.Addr()) {
		return errAddress
	}
	return nil
}

// internalRanges are the special-purpose blocks that netip's predicates do not cover. The IPv6 ones that carry an
// IPv4 address (mapped, compatible, NAT64, 6to4, Teredo, ISATAP is by interface id) would lead back inside.
var internalRanges = mustPrefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
	"2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
)

func isInternal(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return true
	}
	for _, prefix := range internalRanges {
		if prefix.Contains(a) {
			return true
		}
	}
	return isISATAP(a)
}

// isISATAP tells whether the interface id embeds an IPv4 address (RFC 5214: 0000:5efe or 0200:5efe before it).
func isISATAP(a netip.Addr) bool {
	if !a.Is6() {
		return false
	}
	b := a.As16()
	return (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

func mustPrefixes(texts ...string) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	return prefixes
}
