package media

import "fmt"

// Code is why a clip is refused. The values are the codes of the contract.
type Code string

// Codes of refused clips. All are permanent: the same file gives the same answer.
const (
	CodeInputMissing     Code = "input_missing"
	CodeEmptyFile        Code = "empty_file"
	CodeInvalidMedia     Code = "invalid_media"
	CodeNoVideoStream    Code = "no_video_stream"
	CodeImageNotVideo    Code = "image_not_video"
	CodeUnsupportedCodec Code = "unsupported_codec"
	CodeTooLarge         Code = "too_large"
	CodeTooLong          Code = "too_long"
)

// Fault says that a clip can't be used. Message is one sentence for people without the file's path.
type Fault struct {
	Code    Code
	Message string
}

// Error returns "code: sentence".
func (f *Fault) Error() string { return string(f.Code) + ": " + f.Message }

func faultf(code Code, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...)}
}
