package protocol

import "encoding/json"

// ParseRedeemRequest reads the body of a redemption; unknown fields are ignored. Any fault is CodeInvalidRequest
// or CodeInvalidID.
func ParseRedeemRequest(body []byte) (RedeemRequest, error) {
	return parseRequest(body, RedeemRequest.Validate)
}

// ParseLeaseRequest reads the body of renew and release; unknown fields are ignored.
func ParseLeaseRequest(body []byte) (LeaseRequest, error) {
	return parseRequest(body, LeaseRequest.Validate)
}

// ParseArtifactRequest reads a request for a presigned PUT; unknown fields are ignored.
func ParseArtifactRequest(body []byte) (ArtifactRequest, error) {
	return parseRequest(body, ArtifactRequest.Validate)
}

func parseRequest[T any](body []byte, validate func(T) error) (T, error) {
	var request, none T
	if err := json.Unmarshal(body, &request); err != nil {
		return none, NewFault(CodeInvalidRequest, "the body is not JSON of the expected shape").WithCause(err)
	}
	if err := validate(request); err != nil {
		return none, err
	}
	return request, nil
}

// Validate returns a fault if r is no request for a claim.
func (r RedeemRequest) Validate() error {
	if err := ValidateID(r.AnalysisID); err != nil {
		return err
	}
	switch {
	case r.Source != SourceQueue && r.Source != SourceHTTP:
		return NewFault(CodeInvalidRequest, "source is neither queue nor http")
	case r.WorkerID == "" || (r.JobID == "" && r.Source == SourceQueue):
		return NewFault(CodeInvalidRequest, "workerId or jobId is missing")
	case r.Attempt < 1:
		return NewFault(CodeInvalidRequest, "attempt counts from 1")
	}
	return nil
}

// Validate returns a fault if r names no claim.
func (r LeaseRequest) Validate() error {
	if err := ValidateID(r.AnalysisID); err != nil {
		return err
	}
	if r.Claim == "" || r.Epoch < 0 {
		return NewFault(CodeInvalidRequest, "claim or epoch is missing")
	}
	return nil
}

// Validate returns a fault if r does not describe one artifact exactly.
func (r ArtifactRequest) Validate() error {
	if err := (LeaseRequest{r.AnalysisID, r.Claim, r.Epoch}).Validate(); err != nil {
		return err
	}
	switch {
	case !ValidClipID(r.Name):
		return NewFault(CodeInvalidRequest, "name is no plain file name")
	case r.ContentType == "":
		return NewFault(CodeInvalidRequest, "contentType is missing")
	case r.Size < 0 || !sha256Pattern.MatchString(r.SHA256):
		return NewFault(CodeInvalidRequest, "size or sha256 is not valid")
	}
	return nil
}
