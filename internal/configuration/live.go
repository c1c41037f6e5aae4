package configuration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// Version is one text of the configuration.
type Version struct {
	// Source names the ConfigMap or file.
	Source string
	// ResourceVersion is that of the ConfigMap; empty elsewhere.
	ResourceVersion string
	// Hash is the beginning of the text's SHA-256, in hexadecimal: the same text is the same version, wherever it is.
	Hash string
	Text string
}

// Refused is a version that is invalid.
type Refused struct {
	Version
	At time.Time
	// Problems are all its errors, each with its file and line where it has one.
	Problems []string
}

// Report is the configuration of a running scheduler.
type Report struct {
	// Paused says why the scheduler is paused, beside what the text of its configuration says; empty when it is not.
	Paused string
	// Active is the version in use, and Since when.
	Active Version
	Since  time.Time
	// LastGood reports that the active version is the last good one, which was stored beside the ConfigMap, since the present one
	// was refused when the process started.
	LastGood bool
	// Refused is the newest version when it is not the active one; nil when it is.
	Refused *Refused
}

// Options are what a Watcher needs.
type Options struct {
	Catalogue *engine.Registry
	Clock     clock.WithTicker
	// Client reads the ConfigMap, and writes events about it; it may be nil for another source.
	Client kubernetes.Interface
	// OnActive is called with each profile but the first before the loop has it, on the loop's goroutine; nil for no call.
	OnActive func(*engine.Profile)
	// MayWrite reports whether this process may store the last good version: whether it leads. It is called on a goroutine of the
	// Watcher; nil is always.
	MayWrite func() bool
	// Handover has make called between two cycles, on the loop's goroutine, in the order of the calls of Handover. The loop
	// uses the returned profile from then on; nil changes nothing.
	Handover func(make func() *engine.Profile)
	// Controller and Instance are the reporter of the events.
	Controller, Instance string
	// Registry is where the metrics are registered; nil registers none.
	Registry prometheus.Registerer
}

// Watcher is the configuration of a running scheduler. It watches its source, and keeps the last valid version.
//
// New, Start and Run are called once each, in this order. Report and HasSynced may be called on any goroutine.
//
// Invariant: the active version was built without an error, and stays active until the loop has its successor.
type Watcher struct {
	source  Source
	options Options
	log     logr.Logger
	metrics metrics.Set
	watches []*watch
	teller  *eventWriter
	keeper  *keeper
	shown   atomic.Pointer[Report]
	// active is the profile of the active version as its text has it. The loop's goroutine has it, after Start.
	active *engine.Profile
	// mu guards seen, and has versions handed over in the order in which they come.
	mu sync.Mutex
	// seen are the ConfigMaps as read last.
	seen configMaps
}

// New returns the configuration of that source; nothing is read yet. It fails when the name of a metric is taken.
func New(source Source, options Options) (*Watcher, error) {
	if options.OnActive == nil {
		options.OnActive = func(*engine.Profile) {}
	}
	if options.MayWrite == nil {
		options.MayWrite = func() bool { return true }
	}
	l := &Watcher{source: source, options: options, log: logr.Discard()}
	if options.Registry != nil {
		l.metrics = metrics.Make(metrics.Configuration())
		if err := options.Registry.Register(l.metrics); err != nil {
			return nil, fmt.Errorf("metrics of the configuration: %w", err)
		}
	}
	l.shown.Store(&Report{})
	l.teller, l.keeper = newTeller(options), newKeeper(source.lastGood(), options)
	for name, at := range map[string]**corev1.ConfigMap{source.Name: &l.seen.base, source.Override: &l.seen.override} {
		if name == "" {
			continue
		}
		watch, err := newWatch(source.Namespace, name, options.Client, func(object *corev1.ConfigMap) {
			l.mu.Lock()
			defer l.mu.Unlock()
			*at = object
			l.onVersion(source.of(l.seen))
		})
		if err != nil {
			return nil, err
		}
		l.watches = append(l.watches, watch)
	}
	return l, nil
}

// startTimeout is the limit for the first read of a ConfigMap.
const startTimeout = 15 * time.Second

// Start reads the source and returns the first profile: that of the last good version when the source is refused.
// The error has all problems.
// The logger of the context is used from then on.
func (l *Watcher) Start(ctx context.Context) (*engine.Profile, error) {
	l.log = klog.FromContext(ctx)
	reading, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	f, err := l.read(reading)
	if err != nil {
		return nil, err
	}
	if err = f.missing; err == nil {
		err = l.take(f)
	}
	if err != nil {
		if err = l.startFromLastGood(reading, f, err); err != nil {
			return nil, err
		}
	}
	l.pause(f.paused)
	return l.profile(), nil
}

// read reads the source for the first time.
func (l *Watcher) read(ctx context.Context) (sourceContent, error) {
	if l.source.Name == "" {
		return l.source.inProcess(), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	l.seen, err = l.source.get(ctx, l.options.Client)
	return l.source.of(l.seen), err
}

// Run watches the source until the context ends. It never fails.
func (l *Watcher) Run(ctx context.Context) error {
	var telling sync.WaitGroup
	telling.Go(func() { l.teller.run(ctx) })
	if l.source.Name != "" {
		telling.Go(func() { l.keeper.run(ctx, l.log) })
	}
	defer telling.Wait()
	for _, watch := range l.watches {
		telling.Go(func() { watch.run(ctx) })
	}
	if l.source.File != "" {
		l.poll(ctx)
	} else {
		<-ctx.Done()
	}
	return nil
}

// HasSynced reports whether the source has been read since Run.
func (l *Watcher) HasSynced() bool {
	return !slices.ContainsFunc(l.watches, func(w *watch) bool { return !w.synced() })
}

// Report returns the active and the refused version. It is never changed once returned.
func (l *Watcher) Report() Report { return *l.shown.Load() }

// onVersion hands over the source's present content. The source's goroutine calls it.
func (l *Watcher) onVersion(f sourceContent) {
	l.options.Handover(func() *engine.Profile { return l.apply(f) })
}

// apply returns the profile that decides from now on, nil where that is the same as before. It is called on the loop's goroutine.
func (l *Watcher) apply(f sourceContent) *engine.Profile {
	before := l.active
	l.compare(f)
	if isOther := l.pause(f.paused); !isOther && l.active == before {
		return nil
	}
	return l.profile()
}

// compare takes a version, or refuses it, where it is not the active one.
func (l *Watcher) compare(f sourceContent) {
	report := l.Report()
	switch {
	case f.missing != nil:
		l.refuse(f, f.missing)
	case f.version.Hash == report.Active.Hash: // reverted, or the same text again
		if report.Refused != nil {
			l.log.Info("Configuration is the active one again", "hash", f.version.Hash)
			l.teller.active(f)
		}
		report.Active, report.Refused = f.version, nil
		l.publish(report)
	case report.Refused != nil && report.Refused.Hash == f.version.Hash: // another key of the ConfigMap has changed
	default:
		if err := l.take(f); err != nil {
			l.refuse(f, err)
			return
		}
		l.options.OnActive(l.active)
		l.teller.active(f)
	}
}

// take makes a version the active one. Its error has everything that is wrong with it, and then nothing has changed.
func (l *Watcher) take(f sourceContent) error {
	profile, err := l.build(f.from, f.version)
	if err != nil {
		return err
	}
	l.active = profile
	report := l.Report()
	l.publish(Report{Active: f.version, Since: l.options.Clock.Now(), Paused: report.Paused})
	if f.from != l.source.lastGood() {
		l.keeper.keep(f.version.Text)
	}
	l.metrics.Count(metrics.ConfigurationVersions, 1, "active")
	l.log.Info("Configuration is active", "source", f.version.Source, "resourceVersion", f.version.ResourceVersion, "hash", f.version.Hash)
	return nil
}

// pause sets why the scheduler is paused, empty when it is not, and reports whether that is another answer than before.
func (l *Watcher) pause(why string) bool {
	report := l.Report()
	if report.Paused == why {
		return false
	}
	if report.Paused = why; why != "" {
		l.log.Info("The scheduler is paused", "reason", why)
	} else {
		l.log.Info("The scheduler is paused no longer")
	}
	l.publish(report)
	return true
}

// profile returns the active profile, paused where a ConfigMap says so beside its text.
func (l *Watcher) profile() *engine.Profile {
	why := l.Report().Paused
	if why == "" || l.active.Paused != "" {
		return l.active
	}
	paused := *l.active
	paused.Paused = why
	return &paused
}

// build makes the profile of a version of that source. A panic of a plugin fails that version, not the scheduler.
func (l *Watcher) build(source Source, version Version) (profile *engine.Profile, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			profile, err = nil, fmt.Errorf("%s: reading it ended in a panic, which is a bug: %v", source.file(), caught)
		}
	}()
	profile, warnings, err := l.options.Catalogue.Read(source.file(), []byte(version.Text))
	for _, warning := range warnings {
		l.log.Info("Configuration", "warning", warning.String())
	}
	return profile, err
}

// refuse keeps the active version and reports why.
func (l *Watcher) refuse(f sourceContent, err error) {
	report := l.Report()
	problems := strings.Split(err.Error(), "\n")
	if before := report.Refused; before != nil && before.Hash == f.version.Hash && strings.Join(before.Problems, "\n") == err.Error() {
		return // reported already
	}
	report.Refused = &Refused{Version: f.version, At: l.options.Clock.Now(), Problems: problems}
	l.publish(report)
	l.metrics.Count(metrics.ConfigurationVersions, 1, "refused")
	l.log.Error(errors.New(strings.Join(problems, "; ")), "Configuration is refused, and the last good one kept",
		"source", f.version.Source, "resourceVersion", f.version.ResourceVersion, "kept", report.Active.Hash)
	l.teller.refused(f, report.Active, problems)
}

func (l *Watcher) publish(report Report) {
	report.LastGood = l.source.Name != "" && report.Active.Source == l.source.lastGood().String()
	l.shown.Store(&report)
	l.metrics.Reset(metrics.ConfigurationActive)
	l.metrics.Show(metrics.ConfigurationActive, 1, report.Active.Source, report.Active.ResourceVersion, report.Active.Hash)
	l.metrics.Show(metrics.ConfigurationSince, float64(report.Since.Unix()))
	l.metrics.Show(metrics.ConfigurationRefused, metrics.Is(report.Refused != nil))
	l.metrics.Show(metrics.ConfigurationLastGood, metrics.Is(report.LastGood))
}
