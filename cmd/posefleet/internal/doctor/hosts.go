package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/posefleet/posefleet/claimcheck"
)

// hostsArea examines an allow-list of hosts.
type hostsArea struct {
	// name of the findings, variable that holds the list.
	name, variable string
	entries        []string
	control        *url.URL // what lies there is trusted; nil: not known
	insecure       bool     // http and private addresses are allowed
}

// hostsAtOnce bounds the names that are resolved at once.
const hostsAtOnce = 8

// examineHosts resolves each entry that is no pattern, as a worker would, and knocks where the port is known.
func examineHosts(ctx context.Context, h hostsArea) []Finding {
	looked := make([]Finding, len(h.entries))
	gate := make(chan struct{}, hostsAtOnce)

	var wg sync.WaitGroup
	for i, entry := range h.entries {
		wg.Go(func() { // ends with ctx
			gate <- struct{}{}
			defer func() { <-gate }()

			looked[i] = h.entry(ctx, entry)
		})
	}

	wg.Wait()

	if bad := slices.DeleteFunc(looked, func(f Finding) bool { return f.Level == OK }); len(bad) > 0 {
		return bad
	}

	return []Finding{good(h.name, "%s in %s, all sound", number(int64(len(h.entries)), "entry", "entries"), h.variable)}
}

func (h hostsArea) entry(ctx context.Context, entry string) Finding {
	entry = strings.ToLower(strings.TrimSpace(entry))
	if suffix, ok := strings.CutPrefix(entry, "*."); ok {
		return h.pattern(entry, suffix)
	}

	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		host, port = strings.Trim(entry, "[]"), ""
	}

	// The control plane is examined by itself.
	if h.trusted(host, port) {
		return good(h.name, "%s", entry)
	}

	addrs, err := resolve(ctx, host)
	if err != nil {
		return failure(h.name, "correct "+h.variable+", or the resolver of this machine", "%s: %s", entry, reason(err))
	}

	if !h.insecure {
		if inside := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !claimcheck.IsInternal(a) }); len(inside) == len(addrs) {
			return failure(h.name, "use a public endpoint, or set POSEFLEET_ALLOW_INSECURE=true for tests",
				"%s resolves to the private address %s, which workers refuse", entry, inside[0])
		}
	}

	return h.knock(ctx, entry, host, port)
}

// pattern judges *.suffix, which can't be resolved.
func (h hostsArea) pattern(entry, suffix string) Finding {
	name, _, _ := strings.Cut(suffix, ":")
	if !strings.Contains(strings.TrimSuffix(name, "."), ".") {
		return warning(h.name, "name the hosts, or a narrower suffix, in "+h.variable, "%s allows every host below %s", entry, name)
	}

	return good(h.name, "%s", entry)
}

// trusted: what the control plane itself serves needs no public address.
func (h hostsArea) trusted(host, port string) bool {
	return h.control != nil && strings.EqualFold(host, h.control.Hostname()) && (port == "" || port == portOf(h.control))
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}

	return "443"
}

// knock connects, if it is known to which port.
func (h hostsArea) knock(ctx context.Context, entry, host, port string) Finding {
	switch {
	case port != "":
	case h.insecure:
		return good(h.name, "%s", entry)
	default:
		port = "443"
	}

	var d net.Dialer

	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return warning(h.name, "let the network through (security group, VPC endpoint), or correct "+h.variable,
			"%s takes no connection on port %s: %s", entry, port, reason(err))
	}

	_ = conn.Close() // nothing was sent

	return good(h.name, "%s", entry)
}

func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}

	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("the name %s has no address", host)
	}

	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}

	return addrs, err
}

// examineCallbacks is examineHosts for callbacks. A control plane of ours takes results at its own address.
func examineCallbacks(ctx context.Context, h hostsArea) []Finding {
	found := examineHosts(ctx, h)

	covered := h.control == nil || slices.ContainsFunc(h.entries, func(entry string) bool { return covers(entry, h.control) })
	if covered {
		return found
	}

	missing := warning(h.name, "add it to "+h.variable+" unless results go elsewhere",
		"the control plane's own host %s is not in %s", h.control.Host, h.variable)

	return append(slices.DeleteFunc(found, func(f Finding) bool { return f.Level == OK }), missing)
}

// covers tells whether an entry of an allow-list allows the URL's host.
func covers(entry string, u *url.URL) bool {
	c, err := claimcheck.New(claimcheck.Config{
		ControlURL: u.String(), Signer: nobody(), StorageHosts: []string{entry}, CallbackHosts: []string{entry},
	})
	if err != nil {
		return false
	}
	defer c.Close()

	return c.CheckCallbackURL(u.JoinPath("v1", "results", probeJob).String()) == nil
}
