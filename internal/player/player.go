// Package player is the part of our pages that plays a clip with the skeletons on it: Player (player.js), the pose document as it
// sees it (pose.js), angles as curves (curves.js, curves.css), and the look of the pages (page.css). The control plane serves the files; a report has them inside.
//
// A page that uses Player has the elements that it looks up by id: stage, clip, skeleton, note, controls, play, scrubbing, scrubber,
// clock, back, forward, show, speed, full, people.
package player

import "embed"

// Files are the scripts and the style sheet.
//
//go:embed *.js *.css
var Files embed.FS
