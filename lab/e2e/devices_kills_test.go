package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// deviceLog makes the server note what is written to claims, and the binds of pods.
const deviceLog = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata, resources: [{group: resource.k8s.io, resources: [resourceclaims, resourceclaims/status]}]}
- {level: Metadata, resources: [{group: "", resources: [pods/binding, pods/status]}]}
- {level: None}
`

// withClaimController is a cluster of its own in which kube-controller-manager makes and deallocates claims, and pods need no
// ServiceAccount.
func withClaimController() cluster.Options {
	return cluster.Options{
		ControllerManager: true, APIServerArgs: []string{"--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"},
	}
}

// giveDevices makes a class of which each of the nodes has so many devices, and the template of a claim for one of them. It
// follows the claims of the default namespace.
func giveDevices(t *testing.T, lab *harness.Env, writer *load.Client, nodes, each int) (*claims, string, *deviceRegister) {
	t.Helper()
	c := &claims{Env: lab, t: t, ns: metav1.NamespaceDefault}
	register := deviceRegisterOf(t, lab, c.ns)
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", c.ns+".example.com")},
		}}},
	}
	lab.Create(t, class)
	c.template(class.Name)
	var all []*resourceapi.ResourceSlice
	for i := range nodes {
		all = append(all, c.slice(fmt.Sprintf("node-%d", i), each))
	}
	err := load.Each(t.Context(), writer, all, func(ctx context.Context, _ int, slice *resourceapi.ResourceSlice) error {
		return lab.Client.Create(ctx, slice)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, class.Name, register
}

// TestAGangOfManyDevicesStartsWhole: a gang with a claim for each device there is (DEVICE_NODES=125 nodes of eight) starts whole,
// and when its pods are gone no device is allocated.
func TestAGangOfManyDevicesStartsWhole(t *testing.T) {
	t.Parallel()
	const each = 8
	count := number(t, "DEVICE_NODES", 10)
	lab, _ := bareCluster(t, noLog, withClaimController())
	writer, err := load.NewClient(lab.Cluster.Config(), 16)
	if err != nil {
		t.Fatal(err)
	}
	nodes := cluster.Nodes("node", count, map[string]string{"cpu": "64"})
	if err := writer.CreateNodes(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	c, _, register := giveDevices(t, lab, writer, count, each)
	chronicle := audit.NewChronicle(nodes...)
	chronicle.Expect(c.ns, "all", count*each)
	if err := chronicle.Follow(t.Context(), lab.Clientset); err != nil {
		t.Fatal(err)
	}
	lab.Create(t, group(c.ns, "all", int32(count*each)))
	var pods []*corev1.Pod
	member := harness.PodLabels(map[string]string{audit.LabelGang: "all"})
	for i := range count * each {
		pods = append(pods, lab.Pod(c.ns, fmt.Sprintf("all-%d", i), oneCPU, harness.InGroup("all"), member, withTemplate))
	}
	lab.Scheduler(t, harness.SchedulerOptions{Name: "many-devices"})
	began := time.Now()
	if _, err := writer.CreatePods(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	made := time.Since(began)
	lab.Eventually(t, func() error {
		if bound := chronicle.Bound(c.ns, "all"); bound != count*each {
			return fmt.Errorf("%d of %d members are bound", bound, count*each)
		}
		return nil
	})
	whole := time.Since(began)
	if err := errors.Join(allocated(t, lab, c.ns, count*each), devicesWhereTheyRun(t, lab, c.ns, "")); err != nil {
		t.Error(err)
	}
	if found := chronicle.Found(); len(found) > 0 {
		t.Errorf("%d findings, the first: %s", len(found), found[0])
	}
	t.Logf("RESULT devices whole: %d members on %d nodes of %d devices; made within %s, bound %s later; in part for at most %s", count*each,
		count, each, made.Round(time.Millisecond), (whole - made).Round(time.Millisecond), chronicle.LongestPartial().Round(time.Millisecond))
	of := []client.DeleteAllOfOption{client.InNamespace(c.ns), client.GracePeriodSeconds(0)}
	err = errors.Join(lab.Client.DeleteAllOf(t.Context(), &v1alpha1.PodGroup{}, of[0]), lab.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, of...))
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, func() error { return allocated(t, lab, c.ns, 0) })
	register.sound(t)
}

// TestKilledWhileDevicesAreGiven kills the scheduler again and again (DEVICE_KILLS=20) while gangs come and go whose members have
// a claim each. A batch of gangs needs all devices there are. No device is allocated twice at any moment, each bound pod has its
// device on its node, and when all pods are gone no device is allocated.
func TestKilledWhileDevicesAreGiven(t *testing.T) {
	t.Parallel()
	killWhileDevicesAreGiven(t, func(string) harness.PodOption { return withTemplate })
}

// TestKilledWhileExtendedResourcesAreGiven does the same with gangs whose members ask by an extended resource.
func TestKilledWhileExtendedResourcesAreGiven(t *testing.T) {
	t.Parallel()
	if os.Getenv("DEVICE_EXTENDED") == "" {
		t.Skip("make devices runs it, with DEVICE_EXTENDED=1: it takes more than a minute")
	}
	killWhileDevicesAreGiven(t, withExtended)
}

// killWhileDevicesAreGiven kills the scheduler while gangs come and go whose members ask for a device of a class.
func killWhileDevicesAreGiven(t *testing.T, ask func(class string) harness.PodOption) {
	t.Helper()
	w := newWorld(t, deviceLog, withClaimController())
	c, class, register := giveDevices(t, w.lab, w.load, w.nodes, (w.room+w.nodes-1)/w.nodes)
	kind := ourKind()
	member := kind.mark
	kind.mark = func(pod *corev1.Pod, gang string, size, i int) {
		member(pod, gang, size, i)
		ask(class)(pod)
	}
	w.kinds = []*gangKind{kind}
	w.check = func() {
		if err := devicesWhereTheyRun(t, w.lab, c.ns, ""); err != nil {
			name, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "pod "), " ")
			t.Fatalf("%v\nwritten about the first of them:\n%s", err, writtenAbout(t, w.writes, name))
		}
		register.sound(t)
	}
	w.killAgainAndAgain(number(t, "DEVICE_KILLS", 4), "devices", func() bool { return w.strikes > 0 })
	w.end()
	w.lab.Eventually(t, func() error { return allocated(t, w.lab, c.ns, 0) })
	register.sound(t)
	t.Logf("RESULT devices given: %d times a device was allocated, to two claims at the same time 0 times; left allocated in the end 0",
		register.allocations())
}

// writtenAbout returns what the server's log has of a pod and of the claims made for it, a line for each write.
func writtenAbout(t *testing.T, log writeLog, pod string) string {
	t.Helper()
	var all []string
	for _, line := range log.lines(t) {
		for _, name := range []string{pod + `"`, pod + "-extended-", pod + "-gpu-"} {
			if strings.Contains(string(line), `"name":"`+name) {
				all = append(all, string(line))
			}
		}
	}
	return strings.Join(all, "\n")
}
