// Package media asks ffprobe what a clip is and reads its frames through an ffmpeg pipe: upright, with square pixels, each with
// its own presentation time. It also writes pictures with such times into an MP4 file.
//
// Clips come from strangers. What a file is follows from its content, never from its name; only common video containers may be
// opened, and nothing but the one file: a playlist in disguise opens no other file and no connection. Limits are checked on the
// declared size before decoding and on the real one while decoding. The children run in process groups of their own with an
// almost empty environment, die with the context, and can't block on what they print.
//
//	Probe ──▶ Info ──▶ Open ──▶ Reader.Read … io.EOF ──▶ Reader.Media
package media
