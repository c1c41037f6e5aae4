package configuration

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// The reasons of the events about a ConfigMap: a new version that is refused, and one that decides from now on.
const (
	EventReason       = "ConfigurationRefused"
	EventReasonActive = "ConfigurationActive"
)

// longestNote is the API server's limit.
const longestNote = 1024

// eventWriter writes events on a goroutine of its own, so that the loop never waits for the API server. Only the last pending
// event is written: it is about the newest version.
type eventWriter struct {
	options Options
	pending newest[*eventsv1.Event]
}

func newTeller(options Options) *eventWriter {
	return &eventWriter{options: options, pending: newNewest[*eventsv1.Event]()}
}

// refused reports that a version is refused.
func (t *eventWriter) refused(f sourceContent, active Version, problems []string) {
	kept := fmt.Sprintf(" (the version with the hash %s is kept)", active.Hash)
	note := strings.Join(problems, "; ")
	if len(note)+len(kept) > longestNote {
		note = strings.ToValidUTF8(note[:longestNote-len(kept)-3], "") + "..."
	}
	t.enqueue(f, corev1.EventTypeWarning, EventReason, note+kept)
}

// active reports that a version is in use, so that its author gets a confirmation, and does not take an old warning for a new
// one.
func (t *eventWriter) active(f sourceContent) {
	t.enqueue(f, corev1.EventTypeNormal, EventReasonActive, fmt.Sprintf("the version with the hash %s is in use", f.version.Hash))
}

// enqueue replaces the pending event. All replicas use the same name, so that it exists once.
func (t *eventWriter) enqueue(f sourceContent, kind, reason, note string) {
	if f.object == nil {
		return
	}
	sum := sha256.Sum256([]byte(string(f.object.UID) + "/" + f.object.ResourceVersion + "/" + reason))
	t.pending.put(&eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.object.Namespace, Name: fmt.Sprintf("%s.%x", strings.TrimRight(f.object.Name[:min(len(f.object.Name), 230)], ".-"), sum[:8]),
		},
		EventTime:           metav1.NewMicroTime(t.options.Clock.Now()),
		ReportingController: t.options.Controller,
		ReportingInstance:   t.options.Instance,
		Regarding:           *f.object,
		Type:                kind,
		Reason:              reason,
		Action:              "Configure",
		Note:                note,
	})
}

// run writes pending events, until the context ends.
func (t *eventWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-t.pending:
			if err := t.write(ctx, event); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "The event about the configuration was not written")
			}
		}
	}
}

// write sends one event, and retries when that fails.
func (t *eventWriter) write(ctx context.Context, event *eventsv1.Event) error {
	var last error
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		_, last = t.options.Client.EventsV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		return last == nil || apierrors.IsAlreadyExists(last) || apierrors.IsForbidden(last), nil
	})
	if apierrors.IsAlreadyExists(last) {
		return nil // another replica has written it
	}
	if last != nil {
		return last
	}
	return err
}
