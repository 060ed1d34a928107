package claimcheck

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"strings"
)

// verdict is what an answer of storage means for a transfer.
type verdict int

const (
	// verdictRetry: wait, then go on where the transfer broke off.
	verdictRetry verdict = iota
	// verdictExpired: the URL or its signer is not valid now; a fresh one is asked for and the transfer goes on.
	verdictExpired
	// verdictForbidden: refused for another reason; one fresh URL, then it is final.
	verdictForbidden
	// verdictMissing: the object does not exist.
	verdictMissing
	// verdictChanged: the object is not the one of the claim any more.
	verdictChanged
	// verdictRange: the range starts at or after the object's end.
	verdictRange
	// verdictRedirect: never followed.
	verdictRedirect
)

// storageError is the part of an error body that is looked at: S3's XML, or a problem document.
type storageError struct {
	Code    string
	Message string
}

// parseStorageError reads what it can; anything else is the zero value. Status alone is not enough: S3 says 403 to an
// expired URL and to a wrong one.
func parseStorageError(body []byte) storageError {
	var doc struct {
		XMLName xml.Name `xml:"Error"`
		Code    string   `xml:"Code"`
		Message string   `xml:"Message"`
	}
	if xml.Unmarshal(body, &doc) == nil {
		return storageError{Code: strings.TrimSpace(doc.Code), Message: strings.TrimSpace(doc.Message)}
	}
	var problem struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) == nil {
		return storageError{Code: problem.Code, Message: problem.Detail}
	}
	return storageError{}
}

// expired tells whether a fresh URL would be the remedy, and not another right.
func (e storageError) expired() bool {
	switch e.Code {
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestTimeTooSkewed", "RequestExpired", "url_expired":
		return true
	}
	message := strings.ToLower(e.Message)
	return strings.Contains(message, "expired") || strings.Contains(message, "not valid yet") || strings.Contains(message, "not yet valid")
}

// knownCode returns e's code if it is one plain word, for messages; a code of any other form is not repeated.
func (e storageError) knownCode() string {
	if e.Code == "" || len(e.Code) > 64 {
		return ""
	}
	for _, c := range []byte(e.Code) {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' {
			return ""
		}
	}
	return e.Code
}

// judge classifies a status that is not what was hoped for. A 2xx that is none of the expected ones is a broken
// server, which may mend.
func judge(status int, e storageError) verdict {
	switch {
	case isTransient(status), status/100 == 2, e.Code == "SlowDown", e.Code == "RequestTimeout", e.Code == "InternalError":
		return verdictRetry
	case status/100 == 3:
		return verdictRedirect
	case status == http.StatusNotFound, status == http.StatusGone:
		return verdictMissing
	case status == http.StatusPreconditionFailed:
		return verdictChanged
	case status == http.StatusRequestedRangeNotSatisfiable:
		return verdictRange
	case e.expired():
		return verdictExpired
	default:
		return verdictForbidden
	}
}
