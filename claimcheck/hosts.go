package claimcheck

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/protocol"
)

// hostRule is one entry of an allow-list. port is empty for any.
type hostRule struct {
	name   string
	port   string
	suffix bool
}

// hostList is an allow-list; an empty one allows nothing.
type hostList []hostRule

// parseHosts reads "host", "host:port" and "*.suffix". Names are compared without regard to case.
func parseHosts(entries []string) (hostList, error) {
	var list hostList
	for _, entry := range entries {
		rule, err := parseHost(strings.ToLower(strings.TrimSpace(entry)))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		list = append(list, rule)
	}
	return list, nil
}

func parseHost(entry string) (hostRule, error) {
	var rule hostRule
	entry, rule.suffix = strings.CutPrefix(entry, "*.")
	rule.name = entry
	if name, port, err := net.SplitHostPort(entry); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return rule, errors.New("the port is not from 1 to 65535")
		}
		rule.name, rule.port = name, port
	}
	rule.name = strings.TrimSuffix(strings.Trim(rule.name, "[]"), ".")
	switch {
	case rule.name == "" || strings.ContainsAny(rule.name, "*/@?# "):
		return rule, errors.New("it is not host, host:port or *.suffix")
	case strings.Contains(rule.name, ":") && net.ParseIP(rule.name) == nil:
		return rule, errors.New("it is neither a name nor an address")
	case rule.suffix && net.ParseIP(rule.name) != nil:
		return rule, errors.New("an address has no names below it")
	}
	return rule, nil
}

func (l hostList) allows(u *url.URL) bool {
	name, port := normalHost(u), portOf(u)
	for _, rule := range l {
		if rule.port != "" && rule.port != port {
			continue
		}
		if rule.name == name && !rule.suffix {
			return true
		}
		if rule.suffix && strings.HasSuffix(name, "."+rule.name) {
			return true
		}
	}
	return false
}

func normalHost(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

// guard decides which URLs of a claim may be used at all.
type guard struct {
	purpose       string
	hosts         hostList
	control       *url.URL
	allowInsecure bool
}

// check parses text and returns a permanent CodeHostNotAllowed fault if the URL is not allowed. The fault names the
// host at most, never the path or the query.
func (g guard) check(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, g.refuse("it is not an absolute URL")
	case u.User != nil:
		return nil, g.refuse("it has a user in it")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, g.refuse("it is neither https nor http")
	case u.Scheme == "http" && !g.allowInsecure && !sameOrigin(u, g.control):
		return nil, g.refuse("http is not allowed, only https")
	case !g.hosts.allows(u):
		return nil, g.refuse(fmt.Sprintf("host %q is not on the allow-list", u.Host))
	}
	return u, nil
}

// trusted tells whether the address behind u needs no check.
func (g guard) trusted(u *url.URL) bool { return g.allowInsecure || sameOrigin(u, g.control) }

func (g guard) refuse(why string) error {
	return protocol.NewFault(protocol.CodeHostNotAllowed, fmt.Sprintf("the %s URL is not allowed: %s", g.purpose, why))
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && normalHost(a) == normalHost(b) && portOf(a) == portOf(b)
}
