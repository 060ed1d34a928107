package queue

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Queries of an address over TLS.
const (
	queryCAFile     = "tls_ca_file"
	queryCertFile   = "tls_cert_file"
	queryKeyFile    = "tls_key_file"
	queryServerName = "tls_server_name"
	querySkipVerify = "tls_skip_verify"
)

var tlsQueries = []string{queryCAFile, queryCertFile, queryKeyFile, queryServerName, querySkipVerify}

// configureTLS reads the files that the queries name, so that a wrong name is found at the start.
func configureTLS(o *redis.UniversalOptions, query url.Values) error {
	for _, name := range tlsQueries {
		if query.Has(name) && o.TLSConfig == nil {
			return fmt.Errorf("%w: %s needs the scheme rediss or rediss+sentinel", ErrBadRedisURL, name)
		}
	}

	if o.TLSConfig == nil {
		return nil
	}

	o.TLSConfig.ServerName = query.Get(queryServerName) // "": the host of each address

	if text := query.Get(querySkipVerify); text != "" {
		skip, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%w: %s is true or false", ErrBadRedisURL, querySkipVerify)
		}

		o.TLSConfig.InsecureSkipVerify = skip
	}

	if err := trust(o.TLSConfig, query.Get(queryCAFile)); err != nil {
		return err
	}

	return present(o.TLSConfig, query.Get(queryCertFile), query.Get(queryKeyFile))
}

// trust makes the authorities of a PEM file the only ones that servers' certificates may come from.
func trust(c *tls.Config, file string) error {
	if file == "" {
		return nil
	}

	text, err := os.ReadFile(file)
	if err != nil {
		return badFile(queryCAFile, err)
	}

	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("%w: %s: no certificate in PEM form", ErrBadRedisURL, queryCAFile)
	}

	return nil
}

// present sends the certificate to servers that ask for one. The files are read at each connection: certificates are renewed while a
// worker runs.
func present(c *tls.Config, certFile, keyFile string) error {
	if certFile == "" && keyFile == "" {
		return nil
	}

	if certFile == "" || keyFile == "" {
		return fmt.Errorf("%w: %s and %s belong together", ErrBadRedisURL, queryCertFile, queryKeyFile)
	}

	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return badFile(queryCertFile+" and "+queryKeyFile, err)
	}

	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, badFile(queryCertFile+" and "+queryKeyFile, err)
		}

		return &pair, nil
	}

	return nil
}

// badFile leaves the path out of the error, which is part of the address.
func badFile(query string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}

	return fmt.Errorf("%w: %s: %w", ErrBadRedisURL, query, err)
}
