package media

import (
	"log/slog"
	"strings"
)

// Config says which programs to use and what to accept.
type Config struct {
	// FFprobe and FFmpeg are the programs. Empty: those in $PATH.
	FFprobe, FFmpeg string
	// Limits bound what is decoded. Zero: DefaultLimits.
	Limits Limits
	// LongSide is the longest side of the decoded frames in pixels; larger pictures are scaled down while decoding.
	// 0: 1920.
	LongSide int
	// Planar asks for frames in the form that video has, see Reader.Colours, instead of blue, green and red: that is half the bytes, and
	// most clips need no conversion.
	Planar bool
	// Threads is the number of decoder threads. It must follow from the work alone, not from the machine, because a damaged clip may
	// decode differently with another one. 0: 2.
	Threads int
	// Logger gets the decoder's complaints. Nil: none.
	Logger *slog.Logger
}

const (
	defaultLongSide = 1920
	defaultThreads  = 2
)

func (c Config) withDefaults() Config {
	if c.FFprobe == "" {
		c.FFprobe = "ffprobe"
	}
	if c.FFmpeg == "" {
		c.FFmpeg = "ffmpeg"
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if c.LongSide == 0 {
		c.LongSide = defaultLongSide
	}
	if c.Threads == 0 {
		c.Threads = defaultThreads
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// demuxers may be opened. Playlists, scripts, image sequences and devices are not among them; the single-picture ones are, so
// that a picture can be told from garbage.
var demuxers = strings.Join([]string{
	"mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "mpeg", "mpegvideo", "flv", "asf", "ogg",
	"gif", "mxf", "h264", "hevc", "m4v", "ivf", "wav", "mp3", "aac", "flac",
	"jpeg_pipe", "png_pipe", "webp_pipe", "bmp_pipe", "tiff_pipe", "gif_pipe", "j2k_pipe", "jpegxl_pipe",
}, ",")

// codecs are the video codecs that are decoded: those of cameras, phones, editors and the web.
var codecs = map[string]bool{
	"h264": true, "hevc": true, "av1": true, "vp8": true, "vp9": true, "mpeg4": true, "mpeg1video": true, "mpeg2video": true,
	"h263": true, "mjpeg": true, "prores": true, "dnxhd": true, "dvvideo": true, "theora": true, "vc1": true, "wmv1": true,
	"wmv2": true, "wmv3": true, "msmpeg4v2": true, "msmpeg4v3": true, "flv1": true, "vp6f": true, "vp6": true, "gif": true,
	"png": true, "qtrle": true, "rawvideo": true, "ffv1": true, "huffyuv": true, "ffvhuff": true, "utvideo": true, "cfhd": true,
	"cinepak": true, "svq3": true, "jpeg2000": true, "v210": true, "hap": true,
}

// inputArgs are the options that open path and nothing else. The scheme in front keeps a name from being an option or an address.
func inputArgs(path string) []string {
	return []string{"-protocol_whitelist", "file,pipe", "-format_whitelist", demuxers, "-i", "file:" + path}
}
