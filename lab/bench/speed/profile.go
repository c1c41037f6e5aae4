package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/bench/stage"
)

// profileAddress is where the scheduler tells where it spends its time, while it is asked to.
const profileAddress = "127.0.0.1:16060"

// profileFor is how long a profile is taken: it has to be said beforehand.
const profileFor = 5 * time.Second

// record takes a profile of our scheduler from its start on, if asked for. The answer comes when it is written.
func (o *Options) record(ctx context.Context, contender stage.Contender) <-chan error {
	done := make(chan error, 1)
	if o.Profile == "" || contender != stage.Tutti {
		done <- nil
		return done
	}
	go func() { done <- o.fetchProfile(ctx) }()
	return done
}

func (o *Options) fetchProfile(ctx context.Context) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", profileAddress, int(profileFor.Seconds()))
	var answer []byte
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil // it does not listen yet
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return false, errors.New(response.Status)
		}
		answer, err = io.ReadAll(response.Body)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("profile of the scheduler: %w", err)
	}
	if err := os.WriteFile(o.Profile, answer, 0o644); err != nil {
		return fmt.Errorf("profile of the scheduler: %w", err)
	}
	return nil
}
