package store

import "time"

// decide answers a redeem for the analysis as it is: which event it is, "" for a repeat by the same holder, or an error.
//
//	state of the analysis        who asks                                       answer
//	uploading                    anyone                                         ErrNotSubmitted
//	delivered, cancelled         anyone                                         *GoneError
//	failed                       the job that failed, retried by a person,      reopened
//	                             whether its starts count on or from 0
//	failed                       that job, come again by itself                 *GoneError
//	failed                       anyone else                                    *GoneError
//	held                         the same holder                                "" (same claim, same epoch)
//	held, lease running          a later start of the holder's job              taken_over
//	held, lease running          another job, door or worker; an earlier start  *HeldError
//	held, lease over; released   anyone                                         redeemed
//
// An earlier or equal start by another worker can't rob the holder, since the queue gave the job to the holder after
// it. Once the lease is over it may have the claim like anyone else: a job that was removed and added anew counts from 1.
func decide(a *Analysis, h Holder, job JobSeen, now time.Time) (string, error) {
	switch a.Status {
	case StatusUploading:
		return "", ErrNotSubmitted
	case StatusDelivered, StatusCancelled:
		return "", &GoneError{Status: a.Status}
	case StatusFailed:
		return decideFailed(a, h, job)
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

// decideFailed tells a retry by a person from a job that comes again because the queue never heard of the failure, and from the start that
// failed, which may ask again.
func decideFailed(a *Analysis, h Holder, job JobSeen) (string, error) {
	later := h.Attempt > a.Holder.Attempt
	switch {
	case !a.Holder.sameJob(h), !later && a.JobTaken.IsZero():
	case later && !asksQueue:
		return EventReopened, nil
	case job.Err != nil:
		return "", ErrUnseen
	case later && retriedByPerson(a, h, job), !later && startedAnew(a, h, job):
		return EventReopened, nil
	}

	return "", &GoneError{Status: a.Status}
}

// unseen is what JobEnds and JobStalls are where the queue said nothing.
const unseen = -1

// at is what is kept of a job for the start that redeems: nothing if the queue speaks of another start.
func (j JobSeen) at(h Holder) JobSeen {
	if j.Starts == 0 || j.Starts != h.Attempt {
		return JobSeen{Ends: unseen, Stalls: unseen}
	}

	return j
}

// startedAnew tells whether the queue counts the starts of the job that failed from 0 again, which only a retry by a person does: its newest
// start has no higher number than the one that failed, and is another one, since it took the job at another time. A job that was removed and
// added anew counts from 0 as well. It is another job of the same name: whoever adds it may only repeat what they said before.
func startedAnew(a *Analysis, h Holder, job JobSeen) bool {
	return job.Starts == h.Attempt && job.Added.Equal(a.JobAdded) && !job.Taken.IsZero() && !job.Taken.Equal(a.JobTaken)
}

// retriedByPerson compares what the queue says of the job at a later start with what it said at the start that failed.
//
//	the job since then                                     ends      stalls   why it runs
//	ended for good                                         one more  as many  a person retried it
//	ended for good, and the retry counts from 0            fewer,    as many  a person retried it
//	                                                       or 0
//	lost its worker before it had ended                    as many   more     the queue gave it to another worker
//	ended as if it might work next time: no answer came    one more  as many  the queue starts it again, with what it failed of still
//	back to the report of the failure                                         written in it
//
// Where nothing is known – another queue, rows of former versions – a later start counts as a retry, as long as the job has never been lost.
func retriedByPerson(a *Analysis, h Holder, job JobSeen) bool {
	switch {
	case job.Starts > h.Attempt: // who asks is not the newest start any more
		return false
	case job.Starts < h.Attempt:
		return true
	case a.JobEnds == unseen:
		return job.Ends > 0 || job.Stalls == 0
	case job.Ends == a.JobEnds:
		return job.Stalls == a.JobStalls
	}

	return !job.Again || job.Ends != a.JobEnds+1
}
