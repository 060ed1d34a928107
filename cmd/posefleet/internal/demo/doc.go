// Package demo is the command `posefleet demo`: the whole system on one machine, doing one real analysis from end to end before the eyes of
// whoever started it.
//
// It starts what an installation has (Redis and the control plane, which starts workers as there is work), with secrets made for this run, takes a clip the way of
// every clip (created and uploaded at the control plane's API, enqueued by a BullMQ producer, analysed by the worker, reported to the control
// plane) and shows the stages on the terminal and the result on the control plane's page. Nothing is taken over from the environment and
// nothing is left behind: all children end and all folders go, whichever way the command ends.
package demo
