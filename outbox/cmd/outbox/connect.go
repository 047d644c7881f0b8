package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/internal/cli"
)

// connect connects to NATS, and says in which JetStream domain the streams are.
func (f *flags) connect(errs io.Writer) (*nats.Conn, string, error) {
	s, err := connect.FromPlaces(f.nats, os.Getenv)
	if err != nil {
		return nil, "", usageIfConflict(err)
	}
	opts, err := s.Options()
	if err != nil {
		return nil, "", usageIfConflict(err)
	}
	url := cmp.Or(s.URL, connect.DefaultURL)
	opts = append(opts, nats.Name("streamwright outbox"), nats.MaxReconnects(-1), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		fmt.Fprintf(errs, "NATS: %v\n", err)
	}))
	nc, err := nats.Connect(url, opts...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, "", fmt.Errorf("connect to NATS at %s: it refused the login (%w): give credentials that it knows", streamwright.Redact(url), err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("connect to NATS at %s: %w: check --server (NATS_URL)", streamwright.Redact(url), err)
	}
	return nc, s.Domain, nil
}

// usageIfConflict makes settings that contradict one another a wrong command line.
func usageIfConflict(err error) error {
	if errors.Is(err, connect.ErrConflict) {
		return cli.Usage(err)
	}
	return err
}
