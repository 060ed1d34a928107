package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Authority is a certificate authority of the test's own.
type Authority struct {
	// CAFile is its certificate.
	CAFile string

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that nobody trusts yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()

	a := &Authority{t: t, key: newKey(t), CAFile: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	writePEM(t, a.CAFile, "CERTIFICATE", a.sign(a.cert, &a.key.PublicKey))

	return a
}

// Issue makes a certificate for a server of 127.0.0.1 and the names, or for a client, with its key.
func (a *Authority) Issue(names ...string) (certFile, keyFile string) {
	a.t.Helper()

	dir, key := a.t.TempDir(), newKey(a.t)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")

	writePEM(a.t, certFile, "CERTIFICATE", a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: names, IPAddresses: []net.IP{{127, 0, 0, 1}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, &key.PublicKey))

	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}

	writePEM(a.t, keyFile, "PRIVATE KEY", der)

	return certFile, keyFile
}

// Start is the function Start for a server that speaks TLS only, with a certificate of this authority. It wants one from its clients,
// too, unless "--tls-auth-clients" "no" says otherwise.
func (a *Authority) Start(args ...string) *Server {
	a.t.Helper()

	s := a.newServer()
	base := s.arguments
	s.arguments = func(s *Server) []string { return append(base(s), args...) }
	s.start()

	return s
}

// StartCluster is the function StartCluster for nodes that speak TLS only, with clients and with each other.
func (a *Authority) StartCluster(args ...string) *Cluster {
	a.t.Helper()

	return formCluster(a.t, a.newServer, append([]string{"--tls-cluster", "yes"}, args...))
}

// StartReplicated is the function StartReplicated for servers and sentinels that speak TLS only, with clients and with each other.
func (a *Authority) StartReplicated(replicas int, args ...string) *Replicated {
	a.t.Helper()

	start := func(more ...string) *Server {
		return a.Start(append(append([]string{"--tls-replication", "yes"}, more...), args...)...)
	}

	return replicate(a.t, replicas, start, func(s *Server) func() []string {
		options := a.secure(s)

		return func() (lines []string) {
			all := append(options(s), "--tls-replication", "yes")
			for i := 0; i < len(all); i += 2 {
				lines = append(lines, strings.TrimPrefix(all[i], "--")+" "+all[i+1])
			}

			return lines
		}
	})
}

// newServer is a server that speaks TLS only and has not started yet.
func (a *Authority) newServer() *Server {
	a.t.Helper()

	s := newServer(a.t, nil)
	options := a.secure(s)
	s.arguments = func(s *Server) []string { return append(options(s), s.common()...) }

	return s
}

// secure gives a server a certificate, and answers the options of its command line that say so, as names and values.
func (a *Authority) secure(s *Server) (options func(*Server) []string) {
	a.t.Helper()

	certFile, keyFile := a.Issue("localhost")
	s.tls = a.config(certFile, keyFile)

	return func(s *Server) []string {
		return []string{
			"--port", "0", "--tls-port", strconv.Itoa(s.Port), "--tls-cert-file", certFile, "--tls-key-file", keyFile,
			"--tls-ca-cert-file", a.CAFile,
		}
	}
}

func (a *Authority) config(certFile, keyFile string) *tls.Config {
	a.t.Helper()

	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}

	roots := x509.NewCertPool()
	roots.AddCert(a.cert)

	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// sign answers the certificate as DER and, for the authority's own, keeps it.
func (a *Authority) sign(template *x509.Certificate, public *ecdsa.PublicKey) []byte {
	a.t.Helper()

	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}

	if template == a.cert {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatalf("redistest: %v", err)
		}
	}

	return der
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}

	return key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()

	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}
