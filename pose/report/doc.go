// Package report makes one HTML file of a clip's poses: it plays the clip with the skeletons on it, shows the athlete's angles as
// curves with their error, and tells where and why there are none. Nothing is loaded from elsewhere: scripts, style and pose document
// are inside; the clip lies beside the file or, at a size for sharing, inside too. The player is the one of the control plane's page
// (internal/player).
//
// Tests find their way by ids: those of the player, #curves with one .curve[data-angle] per angle or pair, #person, #smoothed.
package report
