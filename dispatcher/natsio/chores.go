package natsio

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// gone reports whether an error says that the requested object does not exist.
func gone(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 404
	}
	return errors.Is(err, jetstream.ErrMsgNotFound)
}

// noSuchMessage reports whether a delete failed because the message did not exist; the
// server has no code of its own for that.
func noSuchMessage(err error) bool {
	return gone(err) || strings.Contains(err.Error(), "not found") || strings.Contains(err.Error(), "no message found")
}

// PurgeIntake removes the intake messages up to and including a position.
func (p *Pusher) PurgeIntake(through uint64) {
	p.chore(func(ctx context.Context) {
		s, err := p.js.Stream(ctx, p.cfg.Names.IntakeStream())
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSequence(through+1))
		}
		if err != nil {
			p.log.Warn("the answered part of the intake could not be purged", "through", through, "error", err)
		}
	})
}

// LookAround makes sure that the intake stream exists, and corrects the clock.
func (p *Pusher) LookAround() {
	p.chore(func(ctx context.Context) {
		if err := p.topology.EnsureStreams(ctx); err != nil {
			p.log.Warn("sweep: the streams could not be looked at", "error", err)
			return
		}
		p.Look(ctx)
	})
}

// repairIntake makes the intake stream anew if it is missing.
func (p *Pusher) repairIntake() {
	p.chore(func(ctx context.Context) {
		if err := p.topology.EnsureStreams(ctx); err != nil {
			p.log.Warn("the streams could not be repaired", "error", err)
		}
	})
}
