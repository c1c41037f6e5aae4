package configuration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file keeps the last good version of a ConfigMap in another one, beside it, so that a scheduler that starts while the
// present version is refused has one all the same.

// LastGoodSuffix follows the name of the ConfigMap in the name of the one with its last good version.
const LastGoodSuffix = "-last-good"

// lastGood returns where the last good version of a ConfigMap is; zero for other sources, which have none.
func (s Source) lastGood() Source {
	if s.Name == "" {
		return Source{}
	}
	return Source{Namespace: s.Namespace, Name: s.Name + LastGoodSuffix, Key: s.Key}
}

// startFromLastGood takes the last good version in place of that of the source, which is refused. The error has the reasons of
// the refusal, too.
func (l *Watcher) startFromLastGood(ctx context.Context, f sourceContent, refused error) error {
	kept := l.source.lastGood()
	if kept == (Source{}) {
		return refused
	}
	both, err := kept.get(ctx, l.options.Client)
	good := kept.of(both)
	if err = errors.Join(err, good.missing); err != nil {
		return errors.Join(refused, fmt.Errorf("no last good version: %w", err))
	}
	if err := l.take(good); err != nil {
		return errors.Join(refused, fmt.Errorf("the last good version is refused, too: %w", err))
	}
	l.log.Error(refused, "The configuration is refused: the scheduler starts with the last good one", "source", good.version.Source)
	l.refuse(f, refused)
	return nil
}

const (
	// keepPeriod is how long after a failure, and how often while it may not write, the keeper tries again.
	keepPeriod = 5 * time.Second
	// missingPeriod is the same where the right or the object is missing: both may come later, as when the chart is upgraded
	// behind the scheduler.
	missingPeriod = time.Minute
)

// keeper stores the last good version, on a goroutine of its own. Only a process that may write does: the leader.
type keeper struct {
	source  Source
	options Options
	pending newest[string]
}

func newKeeper(source Source, options Options) *keeper {
	return &keeper{source: source, options: options, pending: newNewest[string]()}
}

// keep asks for a text to be stored. It replaces the one that is not stored yet.
func (k *keeper) keep(text string) { k.pending.put(text) }

// run stores what keep was called with, until the context ends.
func (k *keeper) run(ctx context.Context, log logr.Logger) {
	ticker := k.options.Clock.NewTicker(keepPeriod)
	defer ticker.Stop()
	var text, missing *string // what is to be stored, and what could not be for lack of the right or the object
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case newer := <-k.pending:
			text = &newer
		case <-ticker.C():
		}
		if text == nil || !k.options.MayWrite() || text == missing && k.options.Clock.Now().Before(next) {
			continue
		}
		err := k.store(ctx, *text)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			if text != missing {
				log.Info("The last good configuration is not kept", "reason", err.Error())
			}
			missing, next = text, k.options.Clock.Now().Add(missingPeriod)
		}
		if err == nil { // else a later tick tries again
			text = nil
		}
	}
}

// newest holds the value that was put last and not taken yet. One goroutine puts.
type newest[T any] chan T

func newNewest[T any]() newest[T] { return make(newest[T], 1) }

func (n newest[T]) put(value T) {
	select {
	case <-n:
	default:
	}
	n <- value
}

// store writes the text where it differs from what is there.
func (k *keeper) store(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	maps := k.options.Client.CoreV1().ConfigMaps(k.source.Namespace)
	stored, err := maps.Get(ctx, k.source.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if was, there := stored.Data[k.source.Key]; there && was == text {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{k.source.Key: text}})
	if err != nil {
		return err
	}
	_, err = maps.Patch(ctx, k.source.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: k.options.Controller})
	return err
}
