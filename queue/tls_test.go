package queue

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/redistest"
)

// withTLS is the server's address with the queries given as name, value, name, value, …
func withTLS(srv *redistest.Server, pairs ...string) string {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}

	return srv.URL + "/0?" + query.Encode()
}

func (k *kit) ping(o Options) error {
	k.t.Helper()

	o.Name = "q"

	q, err := NewQueue(o)
	if err != nil {
		return err
	}
	defer q.Close()

	return q.Ping(k.t.Context())
}

// A server with a certificate of an authority of its own, which wants certificates of its clients, too.
func TestTLS(t *testing.T) {
	t.Parallel()

	k := &kit{t: t}
	authority, stranger := redistest.NewAuthority(t), redistest.NewAuthority(t)
	srv := authority.Start()
	certFile, keyFile := authority.Issue("client")
	strangeCert, strangeKey := stranger.Issue("client")

	lifeCycle(t, Options{Name: "q", RedisURL: withTLS(srv, "tls_ca_file", authority.CAFile, "tls_cert_file", certFile, "tls_key_file", keyFile)})

	// In TLS 1.3 a server refuses a client's certificate after the handshake: the client reads why, or finds the connection reset.
	const refused = " "

	for name, tt := range map[string]struct {
		query []string
		err   string // "" = it works
	}{
		"name of the certificate": {[]string{"tls_ca_file", authority.CAFile, "tls_cert_file", certFile, "tls_key_file", keyFile, "tls_server_name", "localhost"}, ""},
		"another name":            {[]string{"tls_ca_file", authority.CAFile, "tls_cert_file", certFile, "tls_key_file", keyFile, "tls_server_name", "example.org"}, "certificate"},
		"unknown authority":       {[]string{"tls_cert_file", certFile, "tls_key_file", keyFile}, "unknown authority"},
		"any authority":           {[]string{"tls_cert_file", certFile, "tls_key_file", keyFile, "tls_skip_verify", "true"}, ""},
		"no certificate":          {[]string{"tls_ca_file", authority.CAFile}, refused},
		"a stranger's":            {[]string{"tls_ca_file", authority.CAFile, "tls_cert_file", strangeCert, "tls_key_file", strangeKey}, refused},
	} {
		err := k.ping(Options{RedisURL: withTLS(srv, tt.query...)})
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever has no files gives a configuration.
func TestTLSByOption(t *testing.T) {
	t.Parallel()

	authority := redistest.NewAuthority(t)
	srv := authority.Start()

	pair, err := tls.LoadX509KeyPair(authority.Issue("client"))
	if err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(authority.CAFile)
	if err != nil {
		t.Fatal(err)
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)

	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	lifeCycle(t, Options{RedisURL: srv.URL, Name: "q", TLS: config})

	f, err := NewFlows(FlowOptions{RedisURL: srv.URL, TLS: config})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	if _, err := f.Add(t.Context(), node("q", "P", JobOptions{}, node("q", "C", JobOptions{}))); err != nil {
		t.Error(err)
	}
}

// A certificate is renewed on disk while a worker runs.
func TestTLSFilesAreReadAgain(t *testing.T) {
	t.Parallel()

	k := &kit{t: t}
	authority := redistest.NewAuthority(t)
	srv := authority.Start()
	certFile, keyFile := authority.Issue("client")

	q, err := NewQueue(Options{
		Name: "q", RedisURL: withTLS(srv, "tls_ca_file", authority.CAFile, "tls_cert_file", certFile, "tls_key_file", keyFile),
	})
	k.must(err)
	defer q.Close()

	good, err := os.ReadFile(certFile)
	k.must(err)

	k.must(os.WriteFile(certFile, []byte("half of it"), 0o600))

	if err := q.Ping(t.Context()); err == nil || !neverSent(err) || strings.Contains(err.Error(), certFile) {
		t.Errorf("with a broken certificate: %v", err)
	}

	k.must(os.WriteFile(certFile, good, 0o600))
	k.must(q.Ping(t.Context()))
}
