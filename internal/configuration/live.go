package configuration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// Version is one text of the configuration.
type Version struct {
	// Source names where it was found, for people.
	Source string `json:"source"`
	// ResourceVersion is that of the ConfigMap; empty elsewhere.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Hash is the beginning of the text's SHA-256, in hexadecimal: the same text is the same version, wherever it is.
	Hash string `json:"hash"`
	Text string `json:"text"`
}

// Refused is a version that cannot be used.
type Refused struct {
	Version
	At time.Time `json:"at"`
	// Problems are all that is wrong with it, each with its file and line where it has one.
	Problems []string `json:"problems"`
}

// Report is what a running scheduler is configured with.
type Report struct {
	// Active is the version that schedules, and Since when.
	Active Version   `json:"active"`
	Since  time.Time `json:"since"`
	// Explanation is the table of who answers which question by it.
	Explanation string `json:"explanation"`
	// Refused is the newest version when it is not the active one; nil when it is.
	Refused *Refused `json:"refused,omitempty"`
}

// Options are what a Live works with.
type Options struct {
	Catalogue *framework.Registry
	Clock     clock.WithTicker
	// Client reads the ConfigMap, and writes events about it; it may be nil for another source.
	Client kubernetes.Interface
	// OnActive is told of each profile but the first before the loop has it, on the loop's goroutine. nil tells nobody.
	OnActive func(*framework.Profile)
	// Handover has make called between two cycles, on the loop's goroutine, after those that were handed over before. What it returns is
	// the profile from then on; with nil nothing changes.
	Handover func(make func() *framework.Profile)
	// Controller and Instance say in events who writes them.
	Controller, Instance string
	// Registry is where the measurements are registered; nil registers nothing.
	Registry prometheus.Registerer
}

// Watcher is the configuration of a running scheduler. It follows its source, and keeps the last version that was good.
//
// New, Start and Run are called once each, in this order. Report and HasSynced may be called on any goroutine.
//
// Invariant: what is active was built without an error, and stays so until the loop has its successor in hand.
type Watcher struct {
	source  Source
	options Options
	log     logr.Logger
	metrics *collectors
	watch   *watch
	teller  *eventWriter
	shown   atomic.Pointer[Report]
}

// New returns the configuration of that source; nothing is read yet. It fails when a name of its metrics is taken.
func New(source Source, options Options) (*Watcher, error) {
	if options.OnActive == nil {
		options.OnActive = func(*framework.Profile) {}
	}
	metrics, err := newMeasured(options.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics of the configuration: %w", err)
	}
	l := &Watcher{source: source, options: options, metrics: metrics, log: logr.Discard()}
	l.shown.Store(&Report{})
	l.teller = newTeller(options)
	if source.Name != "" {
		l.watch, err = newWatch(source, options.Client, l.onVersion)
	}
	return l, err
}

// startTimeout is how long the first look at a ConfigMap may take.
const startTimeout = 15 * time.Second

// Start reads the source and returns the first profile. Everything that is wrong with it is in the error: there is no last good
// version yet. The logger of the context is used from then on.
func (l *Watcher) Start(ctx context.Context) (*framework.Profile, error) {
	l.log = klog.FromContext(ctx)
	reading, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	f, err := l.source.read(reading, l.options.Client)
	if err != nil {
		return nil, err
	}
	profile, err := l.build(f.version)
	if err != nil {
		return nil, err
	}
	l.activate(f.version, profile)
	return profile, nil
}

// Run follows the source until the context ends. It never fails.
func (l *Watcher) Run(ctx context.Context) error {
	var telling sync.WaitGroup
	telling.Go(func() { l.teller.run(ctx) })
	defer telling.Wait()
	switch {
	case l.watch != nil:
		l.watch.run(ctx)
	case l.source.File != "":
		l.poll(ctx)
	default:
		<-ctx.Done()
	}
	return nil
}

// HasSynced tells whether the source has been looked at since Run.
func (l *Watcher) HasSynced() bool { return l.watch == nil || l.watch.synced() }

// Report returns what is active and what was refused. It is never changed once returned.
func (l *Watcher) Report() Report { return *l.shown.Load() }

// onVersion hands over what the source holds by now. The source's goroutine calls it.
func (l *Watcher) onVersion(f sourceContent) {
	l.options.Handover(func() *framework.Profile { return l.apply(f) })
}

// apply returns the profile of a version if it is to be the active one from now on, else nil. It is called on the loop's goroutine.
func (l *Watcher) apply(f sourceContent) *framework.Profile {
	report := l.Report()
	switch {
	case f.missing != nil:
		l.refuse(f, f.missing)
		return nil
	case f.version.Hash == report.Active.Hash: // taken back, or written anew with the same text
		if report.Refused != nil {
			l.log.Info("Configuration is the active one again", "hash", f.version.Hash)
			l.teller.active(f)
		}
		report.Active, report.Refused = f.version, nil
		l.publish(report)
		return nil
	case report.Refused != nil && report.Refused.Hash == f.version.Hash: // another line of the ConfigMap has changed
		return nil
	}
	profile, err := l.build(f.version)
	if err != nil {
		l.refuse(f, err)
		return nil
	}
	l.options.OnActive(profile)
	l.activate(f.version, profile)
	l.teller.active(f)
	return profile
}

// build makes the profile of a version. What a plugin does not expect costs that version, not the scheduler.
func (l *Watcher) build(version Version) (profile *framework.Profile, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			profile, err = nil, fmt.Errorf("%s: reading it ended in a panic, which is a bug: %v", l.source.file(), caught)
		}
	}()
	profile, warnings, err := l.options.Catalogue.Read(l.source.file(), []byte(version.Text))
	for _, warning := range warnings {
		l.log.Info("Configuration", "warning", warning.String())
	}
	return profile, err
}

func (l *Watcher) activate(version Version, profile *framework.Profile) {
	l.publish(Report{Active: version, Since: l.options.Clock.Now(), Explanation: profile.Explain()})
	l.metrics.count(outcomeActive)
	l.log.Info("Configuration is active", "source", version.Source, "resourceVersion", version.ResourceVersion, "hash", version.Hash)
}

// refuse keeps what is active and says why.
func (l *Watcher) refuse(f sourceContent, err error) {
	report := l.Report()
	problems := strings.Split(err.Error(), "\n")
	if before := report.Refused; before != nil && before.Hash == f.version.Hash && strings.Join(before.Problems, "\n") == err.Error() {
		return // said already
	}
	report.Refused = &Refused{Version: f.version, At: l.options.Clock.Now(), Problems: problems}
	l.publish(report)
	l.metrics.count(outcomeRefused)
	l.log.Error(errors.New(strings.Join(problems, "; ")), "Configuration is refused, and the last good one kept",
		"source", f.version.Source, "resourceVersion", f.version.ResourceVersion, "kept", report.Active.Hash)
	l.teller.refused(f, report.Active, problems)
}

func (l *Watcher) publish(report Report) {
	l.shown.Store(&report)
	l.metrics.show(report)
}
