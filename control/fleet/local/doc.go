// Package local runs the workers of a fleet as processes of this machine: children of the control plane, each in a process group of its own
// and on ports of its own. A worker that ends by itself is started again, after a pause that grows. One that is too many hears SIGTERM and
// may end its work. The kernel ends all of them when the control plane is killed: a worker that lost it could deliver nothing, and its
// analyses come back to the queue.
package local
