package access

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
)

// ServerTLS is the TLS of a server, at least version 1.2, with a certificate
// and key in PEM files. Clients must show a certificate of clientCA, or, if
// optional, may; an empty clientCA asks for none. roots are clientCA's.
func ServerTLS(cert, key, clientCA string, optional bool) (c *tls.Config, roots []*x509.Certificate, err error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate %s and its key %s: %w", cert, key, err)
	}
	c = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if clientCA == "" {
		return c, nil, nil
	}
	if roots, err = certificates(clientCA); err != nil {
		return nil, nil, fmt.Errorf("read the clients' CA: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	for _, r := range roots {
		c.ClientCAs.AddCert(r)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if optional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	// A session that is taken up again brings the judgement of its first
	// handshake, and the CAs may have been others then.
	c.SessionTicketsDisabled = true
	return c, roots, nil
}

// certificates reads the certificates of a PEM file, which must have at least one.
func certificates(path string) (list []*x509.Certificate, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return list, nil
}

// Trusts reports whether any chain that was good when its connection was made
// ends with one of the CAs that are accepted now.
func Trusts(roots []*x509.Certificate, chains [][]*x509.Certificate) bool {
	return slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool {
		return slices.ContainsFunc(roots, chain[len(chain)-1].Equal)
	})
}

// ClientTLS is the TLS of a client, at least version 1.2. It trusts the CAs of a PEM file,
// the system's if ca is empty, and shows a certificate if cert and key name one.
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		roots, err := certificates(ca)
		if err != nil {
			return nil, fmt.Errorf("read the CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		for _, r := range roots {
			c.RootCAs.AddCert(r)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate %s and its key %s: %w", cert, key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
