package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/harness"
)

// phases is a floor with gangs in every phase, each phase in a rack of its own.
type phases struct {
	*floor
	name string
	w    *witness
	// devices reports that those that wait for others to end lack nothing but devices.
	devices bool
	// allow lets the server bind all pods, provide makes the volume, and revive starts the claim controller again.
	allow, provide, revive func()
	reservation            *v1alpha1.PodGroup
	plugin                 string // the path of kubectl-tutti
}

// claimsInPhases is how many claims there are then.
const claimsInPhases = 20

// rack keeps a pod to a rack.
func (p *phases) rack(number int) harness.PodOption {
	return selects("example.com/rack", fmt.Sprintf("%s-rack-%d", p.name, number))
}

// newPhases has the scheduler that runs bring gangs into every phase. Those that wait for others to end request so many CPUs a
// member: a whole node, which has a spare device then, or one, so that they lack nothing but devices.
func newPhases(t *testing.T, name, cpus string, spare int) *phases {
	t.Helper()
	p := &phases{name: name, devices: spare == 0, floor: newFloor(t, name, 1+spare, 1+spare, 3, 2, 1+spare, 1+spare, 2, 1, 1, 1, 1)}
	p.w = p.witness()
	inspectable(t, p.ns)
	var err error
	if p.plugin, err = binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti); err != nil {
		t.Fatal(err)
	}
	p.allow = refuseBinds(t, p.ns, "half-1")
	size := cpu(cpus)

	p.train("slow", p.low, 2, p.rack(0), size, hasGrace)
	p.bound("slow-", 2)
	p.train("runs", p.high, 2, p.rack(1))
	p.gang("named", p.high, 1, 1, cpu("1"), p.rack(1), p.byName)
	shared := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "shared"}, Spec: oneOf(p.class)}
	env.Create(t, shared)
	p.gang("shared", p.high, 2, 2, cpu("1"), p.rack(1), func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &shared.Name}}
	})
	for _, gang := range []string{"runs", "named", "shared"} {
		env.Eventually(t, func() error { return inGroupPhase(t, group(p.ns, gang, 1), v1alpha1.PodGroupRunning) })
	}
	p.train("early", p.low, 2, p.rack(2), size)
	p.bound("early-", 2)
	p.train("half", p.high, 3, p.rack(3))
	p.bound("half-", 2)
	p.startHeld()
	p.train("gone", p.high, 1, p.rack(5))
	p.bound("gone-", 1)

	p.reservation = p.train("large", p.low, 2, p.rack(2), size)
	env.Eventually(t, func() error { return p.arena.reserved(p.reservation, 2) })
	waiting := p.train("waits", p.low, 2, p.rack(1))
	heir := p.train("heir", p.low, 1, p.rack(5))
	for _, gang := range []*v1alpha1.PodGroup{waiting, heir} {
		env.Eventually(t, func() error { return p.says(gang, "needs ") })
	}
	dear := p.train("dear", p.high, 2, p.rack(0), size)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	p.w.evictions(2)
	env.Eventually(t, func() error { return errors.Join(p.left("slow-", 0), p.claimsAre(claimsInPhases)) })

	p.revive = stopClaimController(t)
	p.end("gone-0")
	env.Eventually(t, func() error { return p.all("gone-", 0) })
	return p
}

// startHeld begins to start a gang of which no member is bound, since no provisioner makes the volume of one of them. The other
// one has its device already.
func (p *phases) startHeld() {
	t := p.t
	t.Helper()
	class := p.claims.class("example.com/absent")
	p.claims.volumeClaim(class, "never", corev1.ReadWriteOnce)
	p.gang("held", p.high, 2, 2, cpu("1"), p.rack(4), func(pod *corev1.Pod) {
		if pod.Name == "held-0" {
			withVolume(pod, "never")
		} else {
			withTemplate(pod)
		}
	})
	env.Eventually(t, func() error { return p.have("held-", 1) })
	const selected = "volume.kubernetes.io/selected-node"
	var claim corev1.PersistentVolumeClaim
	env.Eventually(t, func() error {
		if err := p.claims.get("never", &claim); err != nil {
			return err
		}
		if claim.Annotations[selected] == "" {
			return errors.New("no provisioner was asked to make the volume")
		}
		return nil
	})
	p.provide = func() {
		made := disk(class, claim.Annotations[selected], corev1.ReadWriteOnce)
		made.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		p.claims.cleanUp(made)
	}
}

// have is nil when claims of pods whose names begin so have so many devices.
func (f *floor) have(prefix string, want int) error {
	all, err := f.list()
	if err != nil {
		return err
	}
	devices := 0
	for i := range all {
		if strings.HasPrefix(all[i].Name, prefix) {
			devices += len(allocatedTo(&all[i]))
		}
	}
	if devices != want {
		return fmt.Errorf("claims of pods %s* have %d devices, want %d", prefix, devices, want)
	}
	return nil
}

// list returns the claims of the namespace.
func (f *floor) list() ([]resourceapi.ResourceClaim, error) {
	var list resourceapi.ResourceClaimList
	err := env.Client.List(f.t.Context(), &list, client.InNamespace(f.ns))
	return list.Items, err
}

// claimsAre is nil when there are so many claims.
func (f *floor) claimsAre(want int) error {
	all, err := f.list()
	if err == nil && len(all) != want {
		err = fmt.Errorf("%d claims are there, want %d", len(all), want)
	}
	return err
}

// state is that of the arena, and what each claim has and is reserved for, without what may differ: a reservation is planned
// again by the version that counts devices, which also says of its own accord that devices are missing or on their way, where
// the other one repeats a filter. The group of a start that is under way says that it waits when it was interrupted; and a
// member that cannot be bound has its device only while that is tried. A nomination for devices alone is given up by the earlier
// version, and the gang waits for the same victims without it.
func (p *phases) state() (lines []string, err error) {
	known, err := p.arena.state()
	if err != nil {
		return nil, err
	}
	for _, line := range known {
		line, _, _ = strings.Cut(line, ", reserved since")
		line = strings.Replace(line, ": NodesFiltered", ": InsufficientResources", 1)
		if strings.HasPrefix(line, "group heir ") {
			line = strings.Replace(line, ": WaitingForVictims", ": InsufficientResources", 1)
		}
		if p.devices && strings.HasPrefix(line, "pod dear-") {
			line, _, _ = strings.Cut(line, ", nominated to")
		} else if p.devices && strings.HasPrefix(line, "group dear ") {
			line, _, _ = strings.Cut(line, ": ")
		}
		if !strings.HasPrefix(line, "group held ") {
			lines = append(lines, line)
		}
	}
	all, err := p.list()
	for i := range all {
		if !strings.HasPrefix(all[i].Name, "half-1-") {
			lines = append(lines, fmt.Sprintf("claim %s %s has %v, reserved for %v, deleted at %v", all[i].Name, all[i].UID,
				allocatedTo(&all[i]), all[i].Status.ReservedFor, all[i].DeletionTimestamp))
		}
	}
	slices.Sort(lines)
	return lines, err
}

// endAll ends all waits, one after the other, and fails the test if a gang that ran does not go on as it did before.
func (p *phases) endAll(before []string) {
	t := p.t
	t.Helper()
	p.revive()
	p.bound("heir-", 1)
	p.letGo("slow-")
	p.bound("dear-", 2)
	p.allow()
	p.bound("half-", 3)
	p.provide()
	p.bound("held-", 2)
	p.end("early-0", "early-1")
	p.bound("large-", 2)
	p.end("runs-0", "runs-1")
	p.bound("waits-", 2)
	p.w.evictions(2)
	p.given(2 + 2 + 2 + 3 + 1 + 2 + 1)
	after, err := p.state()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range before {
		for _, gang := range []string{"named", "shared", "half-0", "half-2"} {
			ran := strings.HasPrefix(line, "pod "+gang) || strings.HasPrefix(line, "claim "+gang)
			if ran && !slices.Contains(after, line) {
				t.Errorf("was %q, and is not so in\n%s", line, strings.Join(after, "\n"))
			}
		}
	}
	if err := devicesWhereTheyRun(t, env, p.ns, string(p.gpus)); err != nil {
		t.Error(err)
	}
	p.register.sound(t)
}

// counts is nil when kubectl tutti shows that this version counts the devices of each node as the API server has them: what no
// claim has is idle, and what claims of pods that terminate or are gone have is being released.
func (p *phases) counts(running *harness.Scheduler) error {
	text, err := harness.RunCommand(p.t.Context(), p.plugin, "get", "nodes", "-o", "json", "--kubeconfig", env.Cluster.Kubeconfig(),
		"--scheduler-server", running.URL, "--scheduler-namespace", p.ns, "--scheduler-insecure-skip-tls-verify")
	if err != nil {
		return err
	}
	var nodes debugapi.NodeList
	if err := json.Unmarshal([]byte(text), &nodes); err != nil {
		return err
	}
	pods, err := env.Pods(p.t.Context(), p.ns)
	if err != nil {
		return err
	}
	uses := map[types.UID]bool{}
	for i := range pods {
		uses[pods[i].UID] = pods[i].DeletionTimestamp == nil
	}
	all, err := p.list()
	if err != nil {
		return err
	}
	held, leaving := map[string]int64{}, map[string]int64{}
	for i := range all {
		used := slices.ContainsFunc(all[i].Status.ReservedFor, func(by resourceapi.ResourceClaimConsumerReference) bool { return uses[by.UID] })
		for _, device := range allocatedTo(&all[i]) {
			node, _, _ := strings.Cut(device, "/")
			if held[node]++; !used {
				leaving[node]++
			}
		}
	}
	var wrong []error
	for _, slice := range p.slices {
		name := *slice.Spec.NodeName
		at := slices.IndexFunc(nodes.Items, func(n debugapi.Node) bool { return n.Name == name })
		if at < 0 {
			return fmt.Errorf("the scheduler shows no node %s", name)
		}
		idle, releasing := nodes.Items[at].Idle[p.gpus], nodes.Items[at].Releasing[p.gpus]
		if why := nodes.Items[at].Uncounted[p.gpus]; why != "" {
			wrong = append(wrong, fmt.Errorf("%s: devices are not counted: %s", name, why))
		}
		if want := int64(len(slice.Spec.Devices)) - held[name]; idle.Value() != want || releasing.Value() != leaving[name] {
			wrong = append(wrong, fmt.Errorf("%s: %s idle, %s being released, want %d and %d", name, &idle, &releasing, want, leaving[name]))
		}
	}
	return errors.Join(wrong...)
}

// TestUpgradeWithClaims replaces the scheduler of an earlier version (PREVIOUS_OF_CLAIMS, its program), which counts no devices
// of claims, by this one and back, while there are gangs with claims in every phase. No pod is deleted, evicted, moved or
// undone, and no claim gets or loses a device. Then the other version than the one that brought them there ends each of the
// waits.
func TestUpgradeWithClaims(t *testing.T) {
	previous := os.Getenv("PREVIOUS_OF_CLAIMS")
	if previous == "" {
		t.Skip("needs the program of an earlier version in PREVIOUS_OF_CLAIMS: make upgrade FROM_CLAIMS=<commit>")
	}
	for _, one := range []struct {
		name, from, to string
		cpus           string
		spare          int
	}{
		{"upgrade", previous, "", "32", 1}, // the earlier version evicts and reserves for CPUs alone
		{"rollback", "", previous, "32", 1},
		{"rollback-of-devices", "", previous, "1", 0},
	} {
		t.Run(one.name, func(t *testing.T) {
			version := versions(t, "--bind-deadline="+longDeadline)
			running := version(one.from)
			p := newPhases(t, "claims-"+one.name, one.cpus, one.spare)
			look := func(when string) []string {
				p.w.quiet()
				p.reported(when)
				if when == "before" || !p.devices { // the earlier version gives up one that is for devices alone
					env.Eventually(t, func() error { return p.arena.reserved(p.reservation, 2) })
				}
				state, err := p.state()
				if err != nil {
					t.Fatal(err)
				}
				return state
			}
			before := look("before")
			for i, path := range []string{one.to, one.from, one.to} {
				running.Kill()
				running = version(path)
				if after := look(fmt.Sprint(i)); !slices.Equal(before, after) {
					t.Errorf("change of version %d: %s", i+1, difference(before, after))
				}
				if path == "" {
					env.Eventually(t, func() error { return p.counts(running) })
				}
			}
			p.endAll(before)
			if one.to == "" {
				env.Eventually(t, func() error { return p.counts(running) })
			}
		})
	}
}

// difference shows the lines that are in one list alone.
func difference(before, after []string) string {
	var all strings.Builder
	for _, line := range before {
		if !slices.Contains(after, line) {
			all.WriteString("\n- " + line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			all.WriteString("\n+ " + line)
		}
	}
	return all.String()
}
