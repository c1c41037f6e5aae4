package kube

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// This file makes the feature gates of kube-scheduler's plugins those of the API server: a plugin that takes a field into account
// which the API server drops, or the other way round, decides by another cluster than there is.

// FollowedGates are the gates that the plugins read and that the API server has, too. The others keep the default of its version.
func FollowedGates() []featuregate.Feature {
	return []featuregate.Feature{
		features.DRAAdminAccess, features.DRAConsumableCapacity, features.DRADeviceBindingConditions, features.DRADeviceTaintRules,
		features.DRADeviceTaints, features.DRAExtendedResource, features.DRAPartitionableDevices, features.DRAPrioritizedList,
		features.DRAResourceClaimDeviceStatus, features.InPlacePodVerticalScaling, features.NodeDeclaredFeatures,
		features.PodLevelResources, features.TaintTolerationComparisonOperators, features.VolumeAttributesClass,
		features.VolumeLimitScaling,
	}
}

// Served is what of the API server the plugins depend on, and is decided once for each process.
type Served struct {
	// Version is its minor version, such as 1.37.
	Version string
	// DeviceTaintRules reports whether it serves these to this client.
	DeviceTaintRules bool
}

// AskServer asks the API server.
func AskServer(ctx context.Context, client kubernetes.Interface) (Served, error) {
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		return Served{}, fmt.Errorf("version of the API server: %w", err)
	}
	parsed, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return Served{}, fmt.Errorf("version of the API server: %w", err)
	}
	rules, err := ServesDeviceTaintRules(ctx, client)
	return Served{Version: fmt.Sprintf("%d.%d", parsed.Major(), parsed.Minor()), DeviceTaintRules: rules}, err
}

// FollowServer sets the gates: to the defaults of the API server's version, then to what the API server says of its own, as far
// as it may be read, then to given, as A=true,B=false. It is called once, before New, with the gates of the process.
func FollowServer(
	ctx context.Context, client kubernetes.Interface, gates featuregate.MutableVersionedFeatureGate, given string,
) (Served, error) {
	served, err := AskServer(ctx, client)
	if err != nil {
		return served, err
	}
	emulated, err := version.ParseGeneric(served.Version)
	if err != nil {
		return served, fmt.Errorf("version of the API server: %w", err)
	}
	if emulated.LessThan(gates.EmulationVersion()) {
		if err := gates.SetEmulationVersion(emulated); err != nil {
			return served, fmt.Errorf("feature gates of version %s: %w", served.Version, err)
		}
	}
	log := klog.FromContext(ctx)
	enabled, err := enabledFeatures(ctx, client)
	if err != nil {
		log.Info("The feature gates of the API server cannot be read: those of its version are taken", "version", served.Version,
			"reason", err.Error())
	}
	followed := follow(log, gates, enabled)
	if err := setGates(gates, given); err != nil {
		return served, err
	}
	log.Info("Feature gates follow the API server", "version", served.Version, "differing", followed, "given", given)
	return served, nil
}

// CheckGates returns an error when one of the gates is unknown, or fixed. It sets none.
func CheckGates(given string) error {
	return setGates(utilfeature.DefaultMutableFeatureGate.DeepCopy(), given)
}

func setGates(gates featuregate.MutableFeatureGate, given string) error {
	if given == "" {
		return nil
	}
	if err := gates.Set(given); err != nil {
		return fmt.Errorf("--feature-gates %s: %w", given, err)
	}
	return nil
}

// follow sets the followed gates that are not as the API server has them, and returns these. What cannot be set, such as one that
// is fixed by now, is logged and left out. There are two rounds, since a gate may need another one.
func follow(log klog.Logger, gates featuregate.MutableVersionedFeatureGate, enabled map[string]bool) map[string]bool {
	followed := map[string]bool{}
	for _, last := range []bool{false, true} {
		for _, gate := range FollowedGates() {
			on, known := enabled[string(gate)]
			if !known || on == gates.Enabled(gate) {
				continue
			}
			one := map[string]bool{string(gate): on}
			err := gates.DeepCopy().SetFromMap(one) // which remembers also what it refuses
			if err == nil {
				err = gates.SetFromMap(one)
			}
			switch {
			case err == nil:
				followed[string(gate)] = on
			case last:
				log.Info("A feature gate of the API server cannot be followed", "gate", gate, "enabled", on, "reason", err.Error())
			}
		}
	}
	return followed
}

// featureLine is a line of the API server's metrics.
var featureLine = regexp.MustCompile(`^kubernetes_feature_enabled\{.*name="([A-Za-z0-9]+)".*\} ([01])$`)

// enabledFeatures returns the gates of the API server as its metrics show them, an error without the right to read these.
func enabledFeatures(ctx context.Context, client kubernetes.Interface) (map[string]bool, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("no right to get /metrics: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server: %w", err)
	}
	enabled := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if found := featureLine.FindStringSubmatch(lines.Text()); found != nil {
			enabled[found[1]] = found[2] == "1"
		}
	}
	return enabled, lines.Err()
}
