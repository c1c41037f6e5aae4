package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// deviceRegister follows the claims of a namespace in the order in which the API server changed them, and finds each device that
// is allocated to two of them at any moment.
type deviceRegister struct {
	mutex   sync.Mutex
	holders map[string]types.UID   // the claim, by device
	devices map[types.UID][]string // by claim
	granted int                    // how many times a device was allocated
	found   []string
	broken  bool // the watch has ended
}

// deviceRegisterOf begins with a namespace without claims, until the test ends.
func deviceRegisterOf(t *testing.T, lab *harness.Env, namespace string) *deviceRegister {
	t.Helper()
	claims := lab.Clientset.ResourceV1().ResourceClaims(namespace)
	list, err := claims.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Fatalf("%d claims, want none to begin with: %v", len(list.Items), err)
	}
	r := &deviceRegister{holders: map[string]types.UID{}, devices: map[types.UID][]string{}}
	followFrom(t, list.ResourceVersion, claims.Watch, r.see, func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.broken = true
	})
	return r
}

func (r *deviceRegister) see(event watch.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	claim, ok := event.Object.(*resourceapi.ResourceClaim)
	if !ok {
		r.broken = true
		return
	}
	before := r.devices[claim.UID]
	for _, device := range before {
		if r.holders[device] == claim.UID {
			delete(r.holders, device)
		}
	}
	delete(r.devices, claim.UID)
	if event.Type == watch.Deleted {
		return
	}
	for _, device := range allocatedTo(claim) {
		if other, held := r.holders[device]; held {
			r.found = append(r.found, fmt.Sprintf("device %s is allocated to claim %s of UID %s and to another one, of UID %s",
				device, claim.Name, claim.UID, other))
		}
		r.holders[device] = claim.UID
		r.devices[claim.UID] = append(r.devices[claim.UID], device)
		if !slices.Contains(before, device) {
			r.granted++
		}
	}
}

// sound fails the test when a device was seen to be allocated twice, or when nothing is seen any longer.
func (r *deviceRegister) sound(t *testing.T) {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.broken {
		t.Error("the watch of the claims has ended before the test")
	}
	if len(r.found) > 0 {
		t.Errorf("%d findings, the first: %v", len(r.found), r.found[:min(5, len(r.found))])
	}
}

// allocations returns how many times a device was allocated.
func (r *deviceRegister) allocations() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.granted
}

// allocatedTo returns the devices of a claim, each as its pool and its name. A pool has the name of its node.
func allocatedTo(claim *resourceapi.ResourceClaim) (devices []string) {
	if claim.Status.Allocation != nil {
		for _, result := range claim.Status.Allocation.Devices.Results {
			devices = append(devices, result.Pool+"/"+result.Device)
		}
	}
	return devices
}

// allocated is nil when the claims of the namespace have so many devices together.
func allocated(t *testing.T, lab *harness.Env, namespace string, want int) error {
	t.Helper()
	var list resourceapi.ResourceClaimList
	if err := lab.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	all := map[string]string{}
	for i := range list.Items {
		for _, device := range allocatedTo(&list.Items[i]) {
			if other := all[device]; other != "" {
				return fmt.Errorf("device %s is allocated to claims %s and %s", device, other, list.Items[i].Name)
			}
			all[device] = list.Items[i].Name
		}
	}
	if len(all) != want {
		return fmt.Errorf("%d devices are allocated, want %d: %v", len(all), want, all)
	}
	return nil
}

// devicesWhereTheyRun is nil when each pod of the namespace that is bound and has not ended has as many devices as it asks for,
// on its node. Each pod is judged that is bound before the claims are read and is not ending afterwards.
func devicesWhereTheyRun(t *testing.T, lab *harness.Env, namespace, resourceName string) error {
	t.Helper()
	before, err := lab.Pods(t.Context(), namespace)
	if err != nil {
		return err
	}
	var list resourceapi.ResourceClaimList
	if err := lab.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	after, err := lab.Pods(t.Context(), namespace)
	if err != nil {
		return err
	}
	stays := map[types.UID]bool{}
	for i := range after {
		ended := after[i].Status.Phase == corev1.PodSucceeded || after[i].Status.Phase == corev1.PodFailed
		stays[after[i].UID] = after[i].DeletionTimestamp == nil && !ended
	}
	var wrong []error
	held := map[types.UID][]string{}
	for i := range list.Items {
		for _, user := range list.Items[i].Status.ReservedFor {
			held[user.UID] = append(held[user.UID], allocatedTo(&list.Items[i])...)
		}
	}
	for i := range before {
		pod := &before[i]
		if pod.Spec.NodeName == "" || !stays[pod.UID] {
			continue
		}
		want := len(pod.Spec.ResourceClaims)
		for name, amount := range pod.Spec.Containers[0].Resources.Requests {
			if string(name) == resourceName || strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) {
				want += int(amount.Value())
			}
		}
		onNode := 0
		for _, device := range held[pod.UID] {
			if strings.HasPrefix(device, pod.Spec.NodeName+"/") {
				onNode++
			}
		}
		if onNode != want || len(held[pod.UID]) != want {
			wrong = append(wrong, fmt.Errorf("pod %s is bound to %s and has the devices %v, want %d of this node; it was made at %s, the status "+
				"of its extended resources is %+v, its claims are %s", pod.Name, pod.Spec.NodeName, held[pod.UID], want, pod.CreationTimestamp,
				pod.Status.ExtendedResourceClaimStatus, claimsOf(list.Items, pod.UID)))
		}
	}
	return errors.Join(wrong...)
}

// claimsOf says what the claims are like that were made for a pod.
func claimsOf(claims []resourceapi.ResourceClaim, owner types.UID) (all []string) {
	for i := range claims {
		if of := metav1.GetControllerOf(&claims[i]); of != nil && of.UID == owner {
			all = append(all, fmt.Sprintf("%s with %v, reserved for %v, deleted at %v",
				claims[i].Name, allocatedTo(&claims[i]), claims[i].Status.ReservedFor, claims[i].DeletionTimestamp))
		}
	}
	return all
}

// floor is nodes with devices of a class of their own, and the jobs that ask for them. A pod requests one device and one CPU, of
// which there are more than pods, so that the devices decide.
type floor struct {
	*arena
	claims   *claims
	register *deviceRegister
	// middle is the priority class between low and high.
	middle string
	// class is that of the devices, gpus the extended resource that it provides.
	class string
	gpus  corev1.ResourceName
	// slices are those of the nodes, here keeps a pod to the nodes.
	slices []*resourceapi.ResourceSlice
	here   harness.PodOption
}

// newFloor makes nodes with so many devices each, two of them a rack: the first two are NAME-rack-0. Their names are NAME-0 and
// so on.
func newFloor(t *testing.T, name string, devices ...int) *floor {
	t.Helper()
	f := &floor{arena: newArena(t, name, 0), here: selects("example.com/floor", name)}
	f.claims, f.middle = &claims{Env: env, t: t, ns: f.ns}, f.arena.class(name+"-middle", 100, nil)
	f.register = deviceRegisterOf(t, env, f.ns)
	nodes := cluster.Nodes(name, len(devices), map[string]string{"cpu": "32"})
	for i, node := range nodes {
		node.Labels["example.com/floor"], node.Labels["example.com/rack"] = name, fmt.Sprintf("%s-rack-%d", name, i/2)
	}
	env.Nodes(t, nodes...)
	f.class = f.claims.emptyDeviceClass()
	f.gpus = corev1.ResourceName(f.ns + ".example.com/gpu")
	for i, node := range nodes {
		f.slices = append(f.slices, f.claims.slice(node.Name, devices[i]))
		f.claims.cleanUp(f.slices[i])
	}
	f.claims.template(f.class)
	return f
}

// byName asks for one device by the extended resource that the class provides.
func (f *floor) byName(p *corev1.Pod) {
	withExtended(f.class)(p)
	resources := &p.Spec.Containers[0].Resources
	delete(resources.Requests, corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix+f.class))
	resources.Requests[f.gpus] = resource.MustParse("1")
	resources.Limits = corev1.ResourceList{f.gpus: resource.MustParse("1")}
}

// pod makes a job of one pod.
func (f *floor) pod(name, class string, options ...harness.PodOption) {
	f.t.Helper()
	env.Create(f.t, env.Pod(f.ns, name, append([]harness.PodOption{oneCPU, f.here, ofClass(class)}, options...)...))
}

// pods makes that many jobs of one pod with a claim.
func (f *floor) pods(name, class string, count int, options ...harness.PodOption) {
	f.t.Helper()
	for i := range count {
		f.pod(fmt.Sprintf("%s-%d", name, i), class, append([]harness.PodOption{withTemplate}, options...)...)
	}
	f.bound(name+"-", count)
}

// train makes a gang whose members have a claim each.
func (f *floor) train(name, class string, count int, options ...harness.PodOption) *v1alpha1.PodGroup {
	f.t.Helper()
	return f.gang(name, class, int32(count), count, append([]harness.PodOption{cpu("1"), f.here, withTemplate}, options...)...)
}

// end deletes pods, no grace given.
func (f *floor) end(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if err := env.Client.Delete(f.t.Context(), env.Pod(f.ns, name), client.GracePeriodSeconds(0)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// given waits until so many devices are allocated.
func (f *floor) given(want int) {
	f.t.Helper()
	env.Eventually(f.t, func() error { return allocated(f.t, env, f.ns, want) })
}

// without is nil when none of the pods has a node.
func (f *floor) without(prefixes ...string) (err error) {
	for _, prefix := range prefixes {
		err = errors.Join(err, boundOf(f.t, f.ns, prefix, 0))
	}
	return err
}

// deviceOf returns the device of a pod with a claim from the template.
func (f *floor) deviceOf(pod string) string {
	f.t.Helper()
	var list resourceapi.ResourceClaimList
	if err := env.Client.List(f.t.Context(), &list, client.InNamespace(f.ns)); err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		users := list.Items[i].Status.ReservedFor
		if devices := allocatedTo(&list.Items[i]); len(users) == 1 && users[0].Name == pod && len(devices) == 1 {
			return devices[0]
		}
	}
	f.t.Fatalf("pod %s has no device", pod)
	return ""
}

// TestDevicesAreCapacity: what holds for CPUs holds for the devices of claims: in reservations, evictions, queues and racks,
// while slices change, and after a restart of the scheduler. The claims are made and deallocated by kube-controller-manager.
func TestDevicesAreCapacity(t *testing.T) {
	for _, one := range []struct {
		name    string
		devices []int // of each node
		run     func(*floor)
	}{
		{"reserved", []int{4}, (*floor).reserved},
		{"preempted", []int{4}, (*floor).preempted},
		{"reclaimed", []int{3, 2}, (*floor).reclaimed},
		{"racks", []int{2, 2, 2, 1}, (*floor).racks},
		{"lost", []int{4}, (*floor).lost},
		{"lost-with-more", []int{4}, (*floor).lostWithMore},
		{"restarted", []int{4}, (*floor).restarted},
		{"together", []int{4}, (*floor).together},
		{"selected", []int{2, 2}, (*floor).selected},
	} {
		t.Run(one.name, func(t *testing.T) {
			f := newFloor(t, "devices-"+one.name, one.devices...)
			one.run(f)
			if err := devicesWhereTheyRun(t, env, f.ns, string(f.gpus)); err != nil {
				t.Error(err)
			}
			f.register.sound(t)
		})
	}
}

// reserved: three of four devices are reserved for a gang. Jobs that came later and ask by a claim, a resource or an alternative
// wait. They start when the gang has ended.
func (f *floor) reserved() {
	t := f.t
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{reserveSoon(t, "allocate, backfill")}})
	f.pods("early", f.low, 4)
	large := f.train("large", f.low, 3)
	env.Eventually(t, func() error {
		if err := f.arena.reserved(large, 1); err != nil {
			return err
		}
		node := large.Status.Reservation.Nodes[0]
		if gpus := node.Resources[f.gpus]; node.Members != 3 || gpus.Value() != 3 {
			return fmt.Errorf("reserved are %+v, want three devices for three members", node)
		}
		return nil
	})
	env.Create(t, &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "any"},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
				{Name: "two", DeviceClassName: f.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
				{Name: "one", DeviceClassName: f.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
			}}},
		}}},
	})
	w := f.witness()
	f.pod("late-claim", f.low, withTemplate)
	f.pod("late-name", f.low, f.byName)
	f.pod("late-any", f.low, func(p *corev1.Pod) {
		name := "any"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &name}}
	})
	for i, held := range []int{3, 2} {
		f.end(fmt.Sprintf("early-%d", i))
		f.given(held)
		env.Eventually(t, func() error {
			const words = "would fit, but the capacity is reserved for "
			return errors.Join(saysWhy(t, f.ns, "late-claim", corev1.PodReasonUnschedulable, words+f.ns+"/large"),
				saysWhy(t, f.ns, "late-name", corev1.PodReasonUnschedulable, words+f.ns+"/large"),
				saysWhy(t, f.ns, "late-any", corev1.PodReasonUnschedulable, words+f.ns+"/large"))
		})
		w.quiet()
		if err := errors.Join(f.without("late-", "large-"), allocated(t, env, f.ns, held)); err != nil {
			t.Error(err)
		}
	}
	f.end("early-2")
	f.bound("large-", 3)
	f.given(4)
	if err := f.without("late-"); err != nil {
		t.Error(err)
	}
	f.end("large-0", "large-1", "large-2", "early-3") // four devices: the one with alternatives takes two where it finds them
	f.bound("late-", 3)
}

// preempted: of four pods with a device two go for a gang of two, and the pod without a device stays.
func (f *floor) preempted() {
	env.Scheduler(f.t, harness.SchedulerOptions{})
	w := f.witness()
	f.pod("plain", f.low)
	f.bound("plain", 1)
	f.pods("cheap", f.low, 4)
	f.train("dear", f.high, 2)
	f.bound("dear-", 2)
	w.evictions(2)
	if err := errors.Join(f.left("cheap-", 2), f.left("plain", 1), boundOf(f.t, f.ns, "cheap-", 2)); err != nil {
		f.t.Error(err)
	}
	f.given(4)
}

// reclaimed: a queue takes back two of the devices that it is guaranteed, and no queue holds more than its limit, whichever name
// of the class the limit has and however pods ask.
func (f *floor) reclaimed() {
	t := f.t
	implicit := corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + f.class)
	borrower, lender := openQueue("devices-borrower", ""), openQueue("devices-lender", "")
	borrower.Spec.Limit = corev1.ResourceList{implicit: resource.MustParse("4")}
	lender.Spec.Limit = corev1.ResourceList{f.gpus: resource.MustParse("3")}
	lender.Spec.Guarantee = corev1.ResourceList{f.gpus: resource.MustParse("3")}
	createQueues(t, borrower, lender)
	l := &ledger{limits: map[string]int{borrower.Name: 4, lender.Name: 3, "": 100}} // those of the witness are in no queue
	l.follow(t, f.ns)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := f.witness()
	in := func(queue *v1alpha1.Queue) harness.PodOption {
		return harness.PodLabels(map[string]string{v1alpha1.LabelQueue: queue.Name})
	}
	for i, ask := range []harness.PodOption{withTemplate, f.byName, withTemplate, withExtended(f.class), withTemplate} {
		f.pod(fmt.Sprintf("lent-%d", i), f.low, ask, in(borrower))
	}
	f.bound("lent-", 4)
	env.Eventually(t, func() error { return saysWhy(t, f.ns, "lent-", "QueueLimit", "of its limit of ") })
	f.given(4)

	due := group(f.ns, "due", 3)
	due.Spec.Queue = lender.Name
	env.Create(t, due)
	env.Create(t, members(f.ns, "due", "", 3, f.here, ofClass(f.low), withTemplate, in(lender))...)
	f.bound("due-", 3)
	f.pod("more-claim", f.low, withTemplate, in(lender))
	f.pod("more-name", f.low, f.byName, in(lender))
	env.Eventually(t, func() error {
		return errors.Join(saysWhy(t, f.ns, "more-claim", "QueueLimit", "of its limit of "),
			saysWhy(t, f.ns, "more-name", "QueueLimit", "of its limit of "))
	})
	w.evictions(2)
	f.given(5)
	if err := errors.Join(boundOf(t, f.ns, "lent-", 2), boundOf(t, f.ns, "due-", 3), f.without("more-")); err != nil {
		t.Error(err)
	}
	f.end("due-0") // now the limit allows one more of them
	f.bound("more-", 1)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.broken {
		t.Error("the watch of the pods has ended before the test")
	}
	for _, found := range l.found {
		t.Error(found)
	}
}

// racks: devices are counted by rack. A gang that needs more than one rack has waits, and a gang that fits lands in one rack.
func (f *floor) racks() {
	t := f.t
	const topologies = "topologies:\n- name: fabric\n  levels: [{name: rack, label: example.com/rack}]\n"
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + configuredWith(t, topologies)}})
	w := f.witness()
	inRack := func(name string, count int) *v1alpha1.PodGroup {
		gang := group(f.ns, name, int32(count))
		gang.Spec.Topology = []v1alpha1.TopologyConstraint{{Level: "rack"}}
		env.Create(t, gang)
		env.Create(t, members(f.ns, name, "", count, f.here, ofClass(f.low), withTemplate)...)
		return gang
	}
	five := inRack("five", 5)
	env.Eventually(t, func() error {
		return refusedBecause(t, five, "NoDomainFits", "cannot allocate", "rack devices-racks-rack-0 has capacity for 4",
			"rack devices-racks-rack-1 has capacity for 3", "all together for 7")
	})
	w.quiet()
	if err := f.without("five-"); err != nil {
		t.Error(err)
	}
	inRack("four", 4)
	f.bound("four-", 4)
	inRack("three", 3)
	f.bound("three-", 3)
	f.given(7)
	if err := errors.Join(f.onNodes("four-", 0, 1), f.onNodes("three-", 2, 3), f.without("five-")); err != nil {
		t.Error(err)
	}
}

// onNodes is nil when all pods whose names begin so are on nodes with these numbers.
func (f *floor) onNodes(prefix string, numbers ...int) error {
	pods, err := env.Pods(f.t.Context(), f.ns)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		number := slices.IndexFunc(f.slices, func(s *resourceapi.ResourceSlice) bool { return *s.Spec.NodeName == pod.Spec.NodeName })
		if strings.HasPrefix(pod.Name, prefix) && !slices.Contains(numbers, number) {
			return fmt.Errorf("pod %s is on node %q, want one of %v", pod.Name, pod.Spec.NodeName, numbers)
		}
	}
	return nil
}

// changeSlice takes the device out of the slice of a node, or puts all devices in again where it is empty.
func (f *floor) changeSlice(node int, lost string, all int) {
	f.t.Helper()
	slice := f.slices[node]
	slice.Spec.Devices = f.claims.slice(*slice.Spec.NodeName, all).Spec.Devices
	slice.Spec.Devices = slices.DeleteFunc(slice.Spec.Devices, func(device resourceapi.Device) bool {
		return *slice.Spec.NodeName+"/"+device.Name == lost
	})
	slice.Spec.Pool.Generation++
	if err := env.Client.Update(f.t.Context(), slice); err != nil {
		f.t.Fatal(err)
	}
}

// victim returns the first pod of those whose names begin so that is being deleted.
func (f *floor) victim(prefix string) string {
	f.t.Helper()
	pods, err := env.Pods(f.t.Context(), f.ns)
	if err != nil {
		f.t.Fatal(err)
	}
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, prefix) && p.DeletionTimestamp != nil })
	if at < 0 {
		f.t.Fatalf("no pod %s* is being deleted", prefix)
	}
	return pods[at].Name
}

// lost: while two pods terminate for a gang of two, the device of one of them is lost. No other pod can go, the gang does not
// start in part, and starts when the device is there again.
func (f *floor) lost() {
	t := f.t
	env.Scheduler(t, harness.SchedulerOptions{})
	w := f.witness()
	f.pods("other", f.high, 2)
	f.pods("cheap", f.low, 2, hasGrace)
	dear := f.train("dear", f.high, 2)
	w.evictions(2)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	f.changeSlice(0, f.deviceOf("cheap-0"), 4)
	env.Eventually(t, func() error { return f.says(dear, "short of 1 ") })
	w.evictions(2)
	f.letGo("cheap-")
	f.given(2)
	env.Eventually(t, func() error { return waits(t, dear, "InsufficientResources") })
	w.evictions(2)
	if err := errors.Join(f.without("dear-"), allocated(t, env, f.ns, 2)); err != nil {
		t.Error(err)
	}
	f.changeSlice(0, "", 4)
	f.bound("dear-", 2)
	f.given(4)
	w.evictions(2)
}

// lostWithMore: the same with two more pods that could go. As many go as the gang lacks then, and no more.
func (f *floor) lostWithMore() {
	t := f.t
	env.Scheduler(t, harness.SchedulerOptions{})
	w := f.witness()
	f.pods("other", f.middle, 2)
	f.pods("cheap", f.low, 2, hasGrace)
	dear := f.train("dear", f.high, 2)
	w.evictions(2)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	f.changeSlice(0, f.deviceOf(f.victim("cheap-")), 4)
	w.evictions(3)
	f.letGo("cheap-")
	f.bound("dear-", 2)
	f.given(3)
	w.evictions(3)
	if err := f.left("other-", 1); err != nil {
		t.Error(err)
	}
}

// restarted: the claim controller is away, and the scheduler is killed, between the eviction of two pods and the deallocation of
// their claims. The next scheduler holds the nomination and evicts no other pod; the gang starts when the controller is back.
func (f *floor) restarted() {
	t := f.t
	first := env.Scheduler(t, harness.SchedulerOptions{})
	w := f.witness()
	f.pods("other", f.middle, 2)
	f.pods("cheap", f.low, 2, hasGrace)
	dear := f.train("dear", f.high, 2)
	w.evictions(2)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	f.pod("late", f.low, withTemplate)
	env.Eventually(t, func() error { return saysWhy(t, f.ns, "late", corev1.PodReasonUnschedulable, "short of 1 ") })

	revive := stopClaimController(t)
	f.letGo("cheap-")
	env.Eventually(t, func() error { return f.all("cheap-", 0) })
	const held = "waiting for 2 %s, still allocated to claims of pods that are gone"
	env.Eventually(t, func() error { return f.says(dear, fmt.Sprintf(held, f.gpus)) })
	first.Kill()
	env.Scheduler(t, harness.SchedulerOptions{Name: "second"})
	w.evictions(2)
	err := errors.Join(f.without("dear-", "late"), allocated(t, env, f.ns, 4), f.says(dear, fmt.Sprintf(held, f.gpus)))
	if err != nil {
		t.Error(err)
	}
	for i := range 2 {
		if _, nominated := f.where(fmt.Sprintf("dear-%d", i)); nominated != *f.slices[0].Spec.NodeName {
			t.Errorf("dear-%d is nominated to %q", i, nominated)
		}
	}
	revive()
	f.bound("dear-", 2)
	f.given(4)
	w.evictions(2)
	if err := errors.Join(f.without("late"), f.left("other-", 2)); err != nil {
		t.Error(err)
	}
}

// stopClaimController ends kube-controller-manager, which has the controller of claims, until it is revived or the test ends.
func stopClaimController(t *testing.T) (revive func()) {
	t.Helper()
	if err := env.Cluster.Crash(binaries.ControllerManager); err != nil {
		t.Fatal(err)
	}
	away := true
	revive = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cluster.Patience)
		defer cancel()
		if away {
			away = false
			if err := env.Cluster.Revive(ctx, binaries.ControllerManager); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(revive)
	return revive
}

// together: pods that ask by a claim, and by either name of the class, fill the node together and no more. Pods of either kind go
// for pods of the other one.
func (f *floor) together() {
	t := f.t
	env.Scheduler(t, harness.SchedulerOptions{})
	w := f.witness()
	for i := range 2 {
		f.pod(fmt.Sprintf("cheap-claim-%d", i), f.low, withTemplate)
		f.pod(fmt.Sprintf("cheap-name-%d", i), f.low, f.byName)
		f.pod(fmt.Sprintf("cheap-implicit-%d", i), f.low, withExtended(f.class))
	}
	f.bound("cheap-", 4)
	f.given(4)
	env.Eventually(t, func() error { return saysWhy(t, f.ns, "cheap-", corev1.PodReasonUnschedulable, "short of 1 ") })
	w.quiet()
	if err := errors.Join(boundOf(t, f.ns, "cheap-", 4), allocated(t, env, f.ns, 4)); err != nil {
		t.Error(err)
	}
	f.gang("dear-claim", f.high, 2, 2, cpu("1"), f.here, withTemplate)
	f.bound("dear-claim-", 2)
	w.evictions(2)
	f.gang("dear-name", f.high, 2, 2, cpu("1"), f.here, f.byName)
	f.bound("dear-name-", 2)
	w.evictions(4)
	f.given(4)
	if err := f.without("cheap-"); err != nil {
		t.Error(err)
	}
}

// selected: the selectors of claims choose the node. Of four pods, two on each node, those go whose node has devices that satisfy
// the selectors. For selectors that no device satisfies no pod goes.
func (f *floor) selected() {
	t := f.t
	for i, model := range []string{"small", "big"} {
		slice := f.slices[i]
		for j := range slice.Spec.Devices {
			slice.Spec.Devices[j].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}
		}
		slice.Spec.Pool.Generation++
		if err := env.Client.Update(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	asks := func(model string) harness.PodOption {
		spec := oneOf(f.class)
		spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.attributes[%q].model == %q", f.ns+".example.com", model),
		}}}
		env.Create(t, &resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: model}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec},
		})
		return func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &model}}
		}
	}
	env.Scheduler(t, harness.SchedulerOptions{})
	w := f.witness()
	f.pods("cheap", f.low, 4)
	huge := f.gang("huge", f.high, 1, 1, cpu("1"), f.here, asks("huge"))
	env.Eventually(t, func() error { return f.says(huge, "that satisfies the selectors of the claim") })
	w.quiet()
	f.gang("dear", f.high, 2, 2, cpu("1"), f.here, asks("big"))
	f.bound("dear-", 2)
	w.evictions(2)
	f.given(4)
	if err := errors.Join(f.onNodes("dear-", 1), f.onNodes("cheap-", 0), f.left("cheap-", 2), f.without("huge-")); err != nil {
		t.Error(err)
	}
}
