// Package extract is the pass over a job's clips: probe, decode, detect, track, choose the athlete, write the document.
//
//	clip ─▶ media.Probe ─▶ pump (decodes ahead) ─▶ pass: tracked people by their regions, new ones by the finder,
//	        ids by pose.Tracker ─▶ spool on disk ─▶ choice of the athlete ─▶ document, exports, overlay
//
// Memory is bounded by a few frames, whatever the clip's length: what was found goes into a spool file, and the document, whose
// head needs facts of the last frame, is written from it at the end. The same clip, model and build give the same bytes.
//
// Serve speaks the extractor protocol over stdin and stdout.
package extract
