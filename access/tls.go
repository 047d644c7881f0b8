package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// ServerTLS is the TLS of a server, at least version 1.2, with a certificate
// and key in PEM files. Clients must show a certificate of clientCA, or, if
// optional, may; an empty clientCA asks for none.
func ServerTLS(cert, key, clientCA string, optional bool) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s and its key %s: %w", cert, key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if clientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, fmt.Errorf("read the clients' CA: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the clients' CA: %s has no certificate in PEM", clientCA)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if optional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}
