// Package fleet decides how many workers there are: none while there is nothing to do, enough while there is.
//
// The analyses in the database are the demand, whatever the queue says. One process decides, the holder of the lease in the fleet's row;
// its epoch fences what it writes, and the lease's end bounds every call that it makes. A pass is
//
//	lease → demand → decide → write the row → tell the platform → read the demand again → look at the platform
//	          ▲                                                        │ more has come
//	          └────────────────────────────────────────────────────────┘
//
// More workers are asked for at once; fewer once the work has needed fewer for a whole interval, and never fewer than hold leases. Work is
// written before it is announced, and the demand is read after fewer workers were asked for: whichever of the two comes first sees the
// other, so that no work is left alone (as in Dekker's algorithm). A pass that was lost, late or done twice costs time or money, not work:
// every pass begins with what the database and the platform say, and asks for absolute counts.
package fleet
