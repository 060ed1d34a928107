//go:build !linux || (!amd64 && !arm64)

package sandbox

func noNetwork() error { return ErrUnsupported }

func limit(int) error { return ErrUnsupported }
