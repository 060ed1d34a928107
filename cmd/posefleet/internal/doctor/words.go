package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// reason puts an error of the network into words. URLs are cut off: they belong to the caller, who shows what may be shown.
func reason(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}

	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsTimeout {
			return fmt.Sprintf("the name %s was not resolved in time", dns.Name)
		}

		return fmt.Sprintf("the name %s does not resolve", dns.Name)
	}

	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not trusted: " + certificate(err)
	}

	timeout, isNet := errors.AsType[net.Error](err)

	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "the connection is reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection is closed without an answer"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && timeout.Timeout():
		return "no answer in time"
	}

	return strings.TrimSpace(err.Error())
}

func certificate(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the authority is unknown"
	}

	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		return "it is not for " + host.Host
	}

	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "it has expired, or is not valid yet"
	}

	return "it is not valid"
}

// span is a duration in a precision that people need.
func span(d time.Duration) string {
	switch d = d.Abs(); {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}

	return d.Round(10 * time.Microsecond).String()
}

// bytesText is a size in powers of 1024.
func bytesText(n int64) string {
	const unit = 1024

	size, prefix := float64(n), ""
	for _, p := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if size < unit {
			break
		}

		size, prefix = size/unit, p
	}

	if prefix == "" {
		return fmt.Sprintf("%d bytes", n)
	}

	return fmt.Sprintf("%.3g %sB", size, prefix)
}

// number is n with its noun.
func number(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}

	return fmt.Sprintf("%d %s", n, many)
}

// Bounds of what clocks may differ.
const (
	clockWarn = 5 * time.Second
	clockFail = 300 * time.Second // the tolerance of signatures
)

// clock judges how far another clock is ahead of ours, known up to the given error.
func clock(name, whose string, ahead, uncertain time.Duration) Finding {
	const mend = "let this machine and that one keep time by NTP (chrony, systemd-timesyncd; on ECS the host's)"

	word := "behind"
	if ahead < 0 {
		word = "ahead of"
	}

	off := max(ahead.Abs()-uncertain, 0)

	switch {
	case off > clockFail:
		return failure(name, mend, "this clock is %s %s %s: signatures are refused beyond %s", span(ahead), word, whose, clockFail)
	case off > clockWarn:
		return warning(name, mend, "this clock is %s %s %s", span(ahead), word, whose)
	}

	return good(name, "this clock and %s agree within %s", whose, span(max(ahead.Abs(), uncertain)))
}
