package store

import "time"

// decide answers a redeem for the analysis as it is: which event it is, "" for a repeat by the same holder, or an error.
//
//	state of the analysis        who asks                                       answer
//	uploading                    anyone                                         ErrNotSubmitted
//	delivered, cancelled         anyone                                         *GoneError
//	failed                       a later start of the job that failed           reopened
//	failed                       anyone else                                    *GoneError
//	held                         the same holder                                "" (same claim, same epoch)
//	held, lease running          a later start of the holder's job              taken_over
//	held, lease running          another job, door or worker; an earlier start  *HeldError
//	held, lease over; released   anyone                                         redeemed
//
// An earlier or equal start by another worker can't rob the holder, since the queue gave the job to the holder after
// it. Once the lease is over it may have the claim like anyone else: a job that was removed and added anew counts from 1.
func decide(a *Analysis, h Holder, now time.Time) (string, error) {
	switch a.Status {
	case StatusUploading:
		return "", ErrNotSubmitted
	case StatusDelivered, StatusCancelled:
		return "", &GoneError{Status: a.Status}
	case StatusFailed:
		if a.Holder.sameJob(h) && h.Attempt > a.Holder.Attempt {
			return EventReopened, nil
		}

		return "", &GoneError{Status: a.Status}
	}
	held := !a.LeaseUntil.IsZero()
	switch {
	case held && h == a.Holder:
		return "", nil
	case held && a.leased(now) && a.Holder.sameJob(h) && h.Attempt > a.Holder.Attempt:
		return EventTakenOver, nil
	case a.leased(now):
		return "", &HeldError{Left: a.LeaseUntil.Sub(now)}
	}

	return EventRedeemed, nil
}
