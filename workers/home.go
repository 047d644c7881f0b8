package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// home says when a consumer was made and which server leads it. The pull requests that
// wait at a consumer are known to that server alone: they are lost, and nobody says so,
// when it dies, or when the consumer is made anew under its name.
func (p *puller) home(ctx context.Context, names wire.Names, stream, name string) (string, error) {
	m, err := p.w.nc.RequestWithContext(ctx, names.JetStream("CONSUMER.INFO."+stream+"."+name), nil)
	if err != nil {
		return "", fmt.Errorf("ask where consumer %s is: %w", name, err)
	}
	var info struct {
		Created time.Time `json:"created"`
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Created.IsZero() {
		return "", fmt.Errorf("ask where consumer %s is: %.200s", name, m.Data)
	}
	return info.Created.Format(time.RFC3339Nano) + " " + info.Cluster.Leader, nil
}

// findHomes finds the consumers that have moved since they were last looked at, whose pull
// requests are void. It fails if one that was found before can't be found now; a user who
// may not ask finds none, and pulls again when the lost requests have expired. REQUIRES:
// p.registering.
func (p *puller) findHomes(all map[string]*consumer, names wire.Names, stream string) error {
	ctx, cancel := context.WithTimeout(p.w.intake, homeTimeout)
	defer cancel()
	for name, c := range all {
		at, err := p.home(ctx, names, stream, name)
		switch {
		case err != nil && c.home != "":
			return err
		case err != nil:
			p.w.log.Debug("it is not known where a consumer is", "err", err)
			return nil
		case c.home != "" && c.home != at:
			p.w.log.Info("a consumer has moved: pulling from it anew", "consumer", name)
			p.w.mu.Lock()
			c.broken = true // until the registration is adopted
			p.w.mu.Unlock()
		}
		c.home = at
	}
	return nil
}
