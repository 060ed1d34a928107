package media

import "encoding/binary"

// The few Matroska elements that carry raw pictures with free times to ffmpeg, which has no simpler way in for them.
const (
	idEBML          = 0x1A45DFA3
	idDocType       = 0x4282
	idDocVersion    = 0x4287
	idDocRead       = 0x4285
	idSegment       = 0x18538067
	idInfo          = 0x1549A966
	idTimecodeScale = 0x2AD7B1
	idTracks        = 0x1654AE6B
	idTrackEntry    = 0xAE
	idTrackNumber   = 0xD7
	idTrackUID      = 0x73C5
	idTrackType     = 0x83
	idCodecID       = 0x86
	idVideo         = 0xE0
	idPixelWidth    = 0xB0
	idPixelHeight   = 0xBA
	idColourSpace   = 0x2EB524
	idCluster       = 0x1F43B675
	idTimecode      = 0xE7
	idSimpleBlock   = 0xA3
)

// matroskaTick is the unit of the times: 10 µs.
const matroskaTick = 10_000

// matroskaHead is the start of a stream of uncompressed BGR pictures.
func matroskaHead(width, height int) []byte {
	video := concat(unsigned(idPixelWidth, width), unsigned(idPixelHeight, height), element(idColourSpace, []byte("BGR\x18")))
	entry := concat(unsigned(idTrackNumber, 1), unsigned(idTrackUID, 1), unsigned(idTrackType, 1),
		element(idCodecID, []byte("V_UNCOMPRESSED")), element(idVideo, video))
	return concat(
		element(idEBML, concat(element(idDocType, []byte("matroska")), unsigned(idDocVersion, 4), unsigned(idDocRead, 2))),
		elementID(idSegment), []byte{0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, // of unknown size: it ends with the stream
		element(idInfo, unsigned(idTimecodeScale, matroskaTick)),
		element(idTracks, element(idTrackEntry, entry)),
	)
}

// matroskaFrame is what stands before the bytes of a picture: a cluster of its own, so that its time may be anything.
func matroskaFrame(ms float64, size int) []byte {
	timecode := unsigned(idTimecode, int(ms*1e6/matroskaTick+0.5))
	block := concat(elementID(idSimpleBlock), sizeOf(size+4), []byte{0x81, 0, 0, 0x80})
	return concat(elementID(idCluster), sizeOf(len(timecode)+len(block)+size), timecode, block)
}

func element(id uint32, payload []byte) []byte {
	return concat(elementID(id), sizeOf(len(payload)), payload)
}

func unsigned(id uint32, v int) []byte {
	return element(id, binary.BigEndian.AppendUint64(nil, uint64(v)))
}

// elementID drops the leading zero bytes: an id carries its own length.
func elementID(id uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, id)
	for b[0] == 0 {
		b = b[1:]
	}
	return b
}

// sizeOf writes a size in eight bytes, the longest form.
func sizeOf(n int) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(n)|1<<56)
}

func concat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}
