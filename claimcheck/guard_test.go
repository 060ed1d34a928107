package claimcheck_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	list := []string{"a.test", "b.test:8443", "*.s3.eu.amazonaws.com", "[::1]:9000", "10.0.0.7", "Upper.Test"}
	tests := []struct {
		url  string
		want bool
	}{
		{"https://a.test/x", true},
		{"https://a.test:999/x", true},
		{"https://A.TEST./x", true},
		{"http://a.test/", true},
		{"https://b.test:8443/", true},
		{"https://b.test/", false},
		{"https://b.test:8444/", false},
		{"https://bucket.s3.eu.amazonaws.com/k", true},
		{"https://a.b.s3.eu.amazonaws.com/k", true},
		{"https://s3.eu.amazonaws.com/k", false},
		{"https://evils3.eu.amazonaws.com/k", false},
		{"https://s3.eu.amazonaws.com.evil.test/k", false},
		{"https://x.a.test/", false},
		{"https://xa.test/", false},
		{"https://[::1]:9000/", true},
		{"https://[::1]/", false},
		{"https://10.0.0.7/", true},
		{"https://10.0.0.70/", false},
		{"https://upper.test/", true},
		{"https://a.test@evil.test/", false},
	}
	for _, tc := range tests {
		got, err := claimcheck.HostAllowed(list, tc.url)
		if err != nil || got != tc.want {
			t.Errorf("%s: %v, %v", tc.url, got, err)
		}
	}
	for _, bad := range []string{"", " ", "*", "*.", "a.*.test", "https://a.test", "a.test/x", "a.test:0", "a.test:99999", "a.test:x", "u@a.test", "*.10.0.0.1"} {
		if _, err := claimcheck.HostAllowed([]string{bad}, "https://a.test/"); err == nil {
			t.Errorf("%q is taken for a host", bad)
		}
	}
}

func TestInternalAddresses(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
		"169.254.170.2", "100.64.0.1", "100.127.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.0.8", "198.18.0.1",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::808:808",
		"64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1",
		"2600::5efe:7f00:1", "2600::200:5efe:a00:1",
	} {
		if a == "::ffff:8.8.8.8" {
			continue // is 8.8.8.8 itself, see below
		}
		if !claimcheck.Internal(a) {
			t.Errorf("%s is let through", a)
		}
	}
	for _, a := range []string{"8.8.8.8", "::ffff:8.8.8.8", "52.95.110.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2600:1f00::1", "2a05:d07c::1"} {
		if claimcheck.Internal(a) {
			t.Errorf("%s is refused", a)
		}
	}
}

// guarded returns a client with the guard on. Its control plane is elsewhere.
func guarded(t *testing.T, hosts ...string) *claimcheck.Client {
	t.Helper()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	client, err := claimcheck.New(claimcheck.Config{
		ControlURL: "https://control.test", Signer: webhook.NewSigner(secrets), StorageHosts: hosts, CallbackHosts: hosts,
		Limits: claimcheck.Limits{Resumes: 1, ResultTries: 1, BackoffBase: 1, BackoffCap: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// A name on the allow-list that leads inside is refused when it is dialled: the listener sees no connection.
func TestGuardChecksTheResolvedAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(accepted)
		if c, err := listener.Accept(); err == nil {
			t.Error("a connection came in")
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	client := guarded(t, "localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]")
	for _, name := range []string{"localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]"} {
		address := "https://" + name + ":" + port + "/x?" + canary
		c := clip(clipData)
		c.URL = address
		err := client.Download(t.Context(), claimcheck.Download{Clip: c, Path: filepath.Join(t.TempDir(), "c1")})
		wantFault(t, err, protocol.CodeHostNotAllowed, false)
		path := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		err = client.Upload(t.Context(), claimcheck.Upload{Target: protocol.ArtifactAnswer{URL: address}, Path: path, Size: 1})
		wantFault(t, err, protocol.CodeHostNotAllowed, false)
		_, err = client.Report(t.Context(), address, "res_an_1_1", resultBody)
		wantFault(t, err, protocol.CodeHostNotAllowed, false)
	}
	_ = listener.Close()
	<-accepted
}

func TestGuardRefusesURLs(t *testing.T) {
	t.Parallel()
	client := guarded(t, "a.test", "control.test")
	for _, u := range []string{
		"http://a.test/x", "ftp://a.test/x", "file:///etc/passwd", "https://u:p@a.test/", "https://b.test/", "//a.test/x", "a.test/x", "",
		"https://a.test:bad/", "https:a.test", "HTTPS://b.test/?" + canary, "http://control.test/", "http://control.test:443/",
	} {
		for _, err := range []error{client.CheckStorageURL(u), client.CheckCallbackURL(u)} {
			wantFault(t, err, protocol.CodeHostNotAllowed, false)
		}
	}
	for _, u := range []string{"https://a.test/x?" + canary, "HTTPS://A.test/", "https://control.test/cb"} {
		if err := client.CheckStorageURL(u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// What lies at the control plane's own origin is as trusted as the control plane, but has to be on the list.
func TestControlOrigin(t *testing.T) {
	t.Parallel()
	secrets, _ := webhook.ParseSecrets(secret)
	client, err := claimcheck.New(claimcheck.Config{ControlURL: "http://control.internal:8080", Signer: webhook.NewSigner(secrets), StorageHosts: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.CheckCallbackURL("http://control.internal:8080/v1/results/an_1"); err != nil {
		t.Error(err)
	}
	for _, u := range []string{"http://control.internal/", "http://control.internal:8081/"} {
		wantFault(t, client.CheckCallbackURL(u), protocol.CodeHostNotAllowed, false)
	}
	wantFault(t, client.CheckStorageURL("http://control.internal:8080/clip"), protocol.CodeHostNotAllowed, false)
}

func TestConfigFaultsAreJoined(t *testing.T) {
	t.Parallel()
	_, err := claimcheck.New(claimcheck.Config{ControlURL: "https://u:c0ffee@control.test", StorageHosts: []string{"*"}, MaxInputBytes: -1})
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, part := range []string{"control URL", "signer", "storage hosts", "input limit"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	checkShown(t, err.Error())
	for _, u := range []string{"", "control.test", "ftp://control.test", "https://control.test?x=1", "https://control.test#x", "https://"} {
		if err := (claimcheck.Config{ControlURL: u, StorageHosts: []string{"a.test"}}).Validate(); err == nil || !strings.Contains(err.Error(), "control URL") {
			t.Errorf("%q: %v", u, err)
		}
	}
}
