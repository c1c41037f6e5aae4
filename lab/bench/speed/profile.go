package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/bench/stage"
)

// profileFor is how long a profile is taken: it has to be said beforehand.
const profileFor = 5 * time.Second

// profiled lets our scheduler tell where it spends its time, if asked for, and returns where; empty when it does not.
func (o *Options) profiled(contender stage.SchedulerUnderTest) (address string, args []string, err error) {
	if o.Profile == "" || contender != stage.Tutti {
		return "", o.Args, nil
	}
	port, err := stage.FreePort()
	if err != nil {
		return "", nil, err
	}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	return address, append(slices.Clone(o.Args), "--pprof-bind-address="+address), nil
}

// record takes a profile from the scheduler's start on, if there is an address. The answer comes when it is written.
func (o *Options) record(ctx context.Context, address string) <-chan error {
	done := make(chan error, 1)
	if address == "" {
		done <- nil
		return done
	}
	go func() { done <- o.fetchProfile(ctx, address) }()
	return done
}

func (o *Options) fetchProfile(ctx context.Context, address string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, int(profileFor.Seconds()))
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
