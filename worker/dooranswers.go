package worker

import (
	"errors"
	"mime"
	"net/http"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

func accepted(id string) answer {
	return answer{
		status: http.StatusAccepted, location: "/v1/jobs/" + id,
		body: protocol.DoorAccept{AnalysisID: id, Status: protocol.DoorAccepted},
	}
}

// refusedClaim is the answer when the control plane does not give the claim. Only what is decided for good stands
// for repetitions.
func refusedClaim(err error) (a answer, keep bool) {
	claim, ok := errors.AsType[*claimcheck.ClaimError](err)
	if !ok {
		return refusal(http.StatusServiceUnavailable, protocol.CodeWorkerDraining, "the worker stops").after(drainingAfter), false
	}
	switch claim.Kind {
	case claimcheck.KindUnknown:
		return refusal(http.StatusNotFound, protocol.CodeUnknownAnalysis, "the control plane does not know this analysis"), true
	case claimcheck.KindHeld:
		return refusal(http.StatusConflict, protocol.CodeClaimHeld, "another holder has the claim").after(claim.RetryAfter), false
	case claimcheck.KindGone:
		a = refusal(http.StatusGone, protocol.CodeClaimGone, "the analysis is over")
		problem, _ := a.body.(protocol.Problem)
		problem.Reason = claim.Reason
		a.body = problem
		return a, true
	default:
		return refusal(http.StatusServiceUnavailable, protocol.CodeControlUnreachable, "the control plane gave no claim").after(unreachableAfter), false
	}
}

func draining() answer {
	a := refusal(http.StatusServiceUnavailable, protocol.CodeWorkerDraining, "the worker is stopping").after(drainingAfter)
	a.closing = true
	return a
}

// unauthorized does not say which check failed.
func unauthorized() answer {
	return refusal(http.StatusUnauthorized, protocol.CodeUnauthorized, "the request is not signed as it must be")
}

func unknownJob() answer {
	return refusal(http.StatusNotFound, protocol.CodeNotFound, "no such job runs here or ended here lately")
}

func notJSON() answer {
	return refusal(http.StatusUnsupportedMediaType, protocol.CodeUnsupportedMedia, "the content type is not application/json")
}

func isJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}
