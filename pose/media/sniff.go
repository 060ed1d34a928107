package media

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// sniffBytes is how much of a file is looked at before a decoder sees it.
const sniffBytes = 4096

// sniff looks at the file and its first bytes and refuses what can't be a clip.
func sniff(path string) (head []byte, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, faultf(CodeInputMissing, "there is no such file")
	}
	if err != nil {
		return nil, faultf(CodeInputMissing, "the file can't be read")
	}
	if !info.Mode().IsRegular() {
		return nil, faultf(CodeInvalidMedia, "this is not a regular file")
	}
	if info.Size() == 0 {
		return nil, faultf(CodeEmptyFile, "the file is empty")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, faultf(CodeInputMissing, "the file can't be read")
	}
	defer f.Close()
	head = make([]byte, sniffBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, faultf(CodeInputMissing, "the file can't be read")
	}
	head = head[:n]
	if name := pictureName(head); name != "" {
		return nil, faultf(CodeImageNotVideo, "this is a picture (%s), not a video", name)
	}
	return head, nil
}

// pictureName names the still picture format of a file that starts with head, or "". GIF is not among them: it may move.
func pictureName(head []byte) string {
	for _, m := range []struct{ magic, name string }{
		{"\x89PNG\r\n\x1a\n", "PNG"}, {"II*\x00", "TIFF"}, {"MM\x00*", "TIFF"},
	} {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.name
		}
	}
	if bytes.HasPrefix(head, []byte("RIFF")) && len(head) >= 12 && string(head[8:12]) == "WEBP" {
		return "WebP"
	}
	if len(head) >= 12 && string(head[4:8]) == "ftyp" {
		switch string(head[8:12]) {
		case "heic", "heix", "heim", "heis", "mif1", "avif":
			return "HEIF"
		}
	}
	return ""
}

// isJPEG reports whether a file starts with a JPEG picture, of which a motion JPEG stream has many.
func isJPEG(head []byte) bool { return bytes.HasPrefix(head, []byte{0xff, 0xd8, 0xff}) }

// isWebM reports whether the EBML head of a Matroska file names webm as its document type.
func isWebM(head []byte) bool {
	i := bytes.Index(head, []byte{0x42, 0x82})
	return i >= 0 && len(head) >= i+7 && string(head[i+3:i+7]) == "webm"
}

// isMP4 reports whether a file starts with a box of MP4 and QuickTime files.
func isMP4(head []byte) bool {
	if len(head) < 8 {
		return false
	}
	switch string(head[4:8]) {
	case "ftyp", "moov", "mdat", "wide", "free", "skip", "pnot":
		return true
	}
	return false
}
