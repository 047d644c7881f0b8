package connect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A request that nobody answers is sent again, and a refusal is not.
func TestAgain(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		deadline time.Duration // of the caller; 0: none
		lost     int           // tries without an answer
		answer   error
		want     error
		tries    int
		took     time.Duration
	}{
		"answered at once":       {0, 0, nil, nil, 1, 0},
		"refused":                {0, 0, refused, refused, 1, 0},
		"two lost":               {0, 2, nil, nil, 3, 3 * time.Second},
		"one lost, then refused": {0, 1, refused, refused, 2, time.Second},
		"never answered":         {0, 100, nil, context.DeadlineExceeded, 3, answerWithin},
		"until the deadline":     {10 * time.Second, 100, nil, context.DeadlineExceeded, 4, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				began, tries := time.Now(), 0
				_, err := again(ctx, func(ctx context.Context) (int, error) {
					if tries++; tries > c.lost {
						return 0, c.answer
					}
					<-ctx.Done()
					return 0, ctx.Err()
				})
				if took := time.Since(began); !errors.Is(err, c.want) || tries != c.tries || took != c.took {
					t.Errorf("%d tries, %s, %v: want %d, %s, %v", tries, took, err, c.tries, c.took, c.want)
				}
			})
		})
	}
}

// The caller's end is heard at once.
func TestAgainEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := again(ctx, func(try context.Context) (int, error) {
		cancel()
		<-try.Done()
		return 0, try.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// late is a JetStream in which another node makes a stream just before this one does.
type late struct {
	jetstream.JetStream
	tries int
}

func (l *late) CreateOrUpdateStream(context.Context, jetstream.StreamConfig) (jetstream.Stream, error) {
	if l.tries++; l.tries < 3 {
		return nil, jetstream.ErrStreamNameAlreadyInUse
	}
	return nil, nil
}

// Of nodes that make a stream at once, one makes it, and the others bring it to their
// configuration.
func TestAStreamThatAnotherNodeMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &late{}
		if _, err := (patient{l}).CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S"}); err != nil || l.tries != 3 {
			t.Errorf("%d tries, %v", l.tries, err)
		}
	})
}
