package containers

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// isolatedCPUs are the isolated CPUs of the quiet node: 1, and 1 to 3 where this machine has four or more.
func isolatedCPUs() string {
	if runtime.NumCPU() < 4 {
		return "1"
	}
	return "1-3"
}

// saysCPUs is the script of a container that first prints on which CPUs it may run.
const saysCPUs = `grep Cpus_allowed_list: /proc/self/status | cut -f 2; sleep infinity`

// oneIsolated asks for an isolated CPU for the pod's container.
func oneIsolated() harness.PodOption {
	return func(p *corev1.Pod) {
		p.Annotations["isolcpu.tutti.dev/cpus"] = "true"
		harness.Requests(map[string]string{"cpu": "1"})(p)
	}
}

// TestIsolatedCPUsOnTheKernel plays sequences of starts and ends of pods, with isolated CPUs and without, of kills of the agent
// and of restarts of containerd. What the kernel says of each container is read from its control group: never do two containers
// have one isolated CPU, and at rest each owner has its CPU alone and no other container has it. SEQUENCES is how many are
// played, 3 by default; SEED is the first one's seed.
func TestIsolatedCPUsOnTheKernel(t *testing.T) {
	env := lab(t)
	sequences, err := strconv.Atoi(cmp.Or(os.Getenv("SEQUENCES"), "3"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(cmp.Or(os.Getenv("SEED"), "1"))
	if err != nil {
		t.Fatal(err)
	}
	if isolatedCPUs() == "1" {
		t.Run("DisjointSets", func(t *testing.T) {
			t.Skipf("%d CPUs, so that one is isolated: sets of several are held by TestNoIsolatedCPUIsSharedOnALargeNode, without a kernel",
				runtime.NumCPU())
		})
	}
	for seed := first; seed < first+sequences; seed++ {
		s := &sequence{T: t, env: env, namespace: env.Namespace(t), random: rand.New(rand.NewPCG(uint64(seed), 0))}
		for range 6 {
			s.steps = append(s.steps, s.step())
			s.neverShared()
		}
		s.atRest()
		if t.Logf("seed %d: %s", seed, strings.Join(s.steps, ", ")); t.Failed() {
			return
		}
		s.clear()
	}
}

// TestAnUpgradeOfTheAgent: a new agent takes over the containers as they are, and moves none. CPUs of a pod that is complete, and
// of one that ended while there was no agent, are free again.
func TestAnUpgradeOfTheAgent(t *testing.T) {
	env := lab(t)
	s := &sequence{T: t, env: env, namespace: env.Namespace(t)}
	s.agent()
	one := []harness.PodOption{oneIsolated(), onNode(quiet), grace(1)}
	for cpu := s.set(isolatedCPUs()).Len(); cpu > 0; cpu-- { // each isolated CPU has been used by a pod that is complete
		name := fmt.Sprint("isolated-complete-", cpu)
		env.Create(t, pod(env, s.namespace, name, "true", append(one, neverAgain)...))
		eventuallyPod(t, env, s.namespace, name, in(corev1.PodSucceeded))
	}
	env.Create(t, pod(env, s.namespace, "ordinary", "sleep infinity", onNode(quiet), grace(1)))
	eventuallyPod(t, env, s.namespace, "ordinary", in(corev1.PodRunning))
	restart := func() {
		t.Helper()
		for _, args := range [][]string{{"rollout", "restart"}, {"rollout", "status", "--timeout=5m"}} {
			args = append(args, "daemonset/"+release.DaemonSet, "--namespace", release.Namespace)
			if _, err := env.Cluster.Kubectl(t.Context(), args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	restart()
	s.pods = []string{"ordinary"}
	for cpu := s.set(isolatedCPUs()).Len(); cpu > 0; cpu-- {
		name := fmt.Sprint("isolated-", cpu)
		env.Create(t, pod(env, s.namespace, name, saysCPUs, one...))
		eventuallyPod(t, env, s.namespace, name, in(corev1.PodRunning))
		s.pods = append(s.pods, name)
	}
	s.atRest()
	before := s.running()
	restart()
	s.atRest()
	if after := s.running(); !reflect.DeepEqual(before, after) {
		t.Errorf("the containers have %v after the upgrade, before %v", after, before)
	}
}

// neverAgain lets the kubelet start a container once.
func neverAgain(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }

// sequence is one of them.
type sequence struct {
	*testing.T
	env       *harness.Env
	namespace string
	random    *rand.Rand
	pods      []string
	made      int
	steps     []string
}

// step does one thing and says which.
func (s *sequence) step() string {
	s.Helper()
	m := machine(s.T, s.env, quiet)
	switch kind := s.random.IntN(6); {
	case kind == 0 && len(s.pods) > 0:
		i := s.random.IntN(len(s.pods))
		name := s.pods[i]
		s.pods = slices.Delete(s.pods, i, i+1)
		s.delete(name)
		return "end " + name
	case kind == 1:
		// The status of a pod may still name the container that was killed before.
		s.env.Eventually(s, func() error { return kill(s.Context(), s.env, s.agent()) })
		return "kill the agent"
	case kind == 2:
		if err := errors.Join(m.Kill(node.Containerd), m.StartProgram(s.Context(), node.Containerd)); err != nil {
			s.Fatal(err)
		}
		return "restart containerd"
	case kind == 3:
		return "start " + s.start("ordinary")
	default:
		return "start " + s.start("isolated", oneIsolated())
	}
}

func (s *sequence) start(kind string, options ...harness.PodOption) string {
	s.Helper()
	s.made++
	name := fmt.Sprintf("%s-%d", kind, s.made)
	s.env.Create(s, pod(s.env, s.namespace, name, saysCPUs, append(options, onNode(quiet), grace(1))...))
	s.pods = append(s.pods, name)
	// Half of the time the next step comes before the container runs.
	if s.random.IntN(2) == 0 {
		s.env.Eventually(s, func() error {
			p, err := get(s.Context(), s.env, s.namespace, name)
			if err != nil || p.Status.Phase == corev1.PodRunning || unschedulable("")(p) == nil {
				return err
			}
			return fmt.Errorf("pod %s neither runs nor waits: %+v", name, p.Status)
		})
	}
	return name
}

func (s *sequence) delete(name string) {
	s.Helper()
	p, err := get(s.Context(), s.env, s.namespace, name)
	if err == nil {
		err = s.env.Client.Delete(s.Context(), p)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// agent is the agent's pod.
func (s *sequence) agent() (found *corev1.Pod) {
	s.Helper()
	s.env.Eventually(s, func() error {
		pods, err := s.env.Pods(s.Context(), release.Namespace, client.MatchingLabels{"app.kubernetes.io/name": release.DaemonSet})
		if err != nil || len(pods) != 1 {
			return errors.Join(err, fmt.Errorf("%d agents", len(pods)))
		}
		if found = &pods[0]; len(found.Status.ContainerStatuses) == 0 || !found.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("the agent is not ready: %+v", found.Status.ContainerStatuses)
		}
		return nil
	})
	return found
}

// running are the containers of the test's pods that run now, by the kind of their pods and by their names, with the CPUs that
// the kernel lets them use.
func (s *sequence) running() map[string]map[string]isolated.CPUSet {
	s.Helper()
	pods, err := s.env.Pods(s.Context(), s.namespace)
	if err != nil {
		s.Fatal(err)
	}
	running := map[string]map[string]isolated.CPUSet{"isolated": {}, "ordinary": {}}
	for _, p := range pods {
		for _, status := range p.Status.ContainerStatuses {
			if status.State.Running == nil {
				continue
			}
			list, err := machine(s.T, s.env, quiet).CPUs(strings.TrimPrefix(status.ContainerID, "containerd://"))
			if err != nil {
				continue // it has just ended
			}
			kind, _, _ := strings.Cut(p.Name, "-")
			running[kind][p.Name] = s.set(list)
		}
	}
	return running
}

// set reads a list of CPUs.
func (s *sequence) set(list string) isolated.CPUSet {
	s.Helper()
	set, err := isolated.ParseSet(list)
	if err != nil {
		s.Fatal(err)
	}
	return set
}

// neverShared holds at each moment.
func (s *sequence) neverShared() {
	s.Helper()
	var held isolated.CPUSet
	for name, cpus := range s.running()["isolated"] {
		if shared := held.Intersect(cpus); !shared.Empty() {
			s.Errorf("%s has the isolated CPUs %s of another container after %v", name, shared, s.steps)
		}
		held = held.Union(cpus)
	}
}

// atRest holds when each pod has had its time.
func (s *sequence) atRest() {
	s.Helper()
	s.agent()
	s.env.Eventually(s, func() error {
		s.neverShared()
		want := map[string]int{}
		for _, name := range s.pods {
			kind, _, _ := strings.Cut(name, "-")
			want[kind]++
		}
		all, running := s.set(isolatedCPUs()), s.running()
		if len(running["ordinary"]) != want["ordinary"] || len(running["isolated"]) != min(all.Len(), want["isolated"]) {
			return fmt.Errorf("%v run, want %v after %v", running, want, s.steps)
		}
		for name, cpus := range running["isolated"] {
			if cpus.Len() != 1 || !cpus.Within(all) {
				return fmt.Errorf("%s has the CPUs %s, want one of %s after %v", name, cpus, all, s.steps)
			}
			said, err := printed(s.Context(), s.env, s.namespace, name, "")
			if err != nil {
				return err
			}
			first, err := isolated.ParseSet(said)
			if err != nil {
				return err // the kubelet's words, while containerd does not answer it
			}
			if first.Empty() {
				return fmt.Errorf("%s has not printed its CPUs", name)
			}
			if first != cpus {
				s.Errorf("%s began on the CPUs %s, and has %s after %v", name, first, cpus, s.steps)
			}
		}
		for name, cpus := range running["ordinary"] {
			if shared := cpus.Intersect(all); !shared.Empty() {
				return fmt.Errorf("%s has the isolated CPUs %s after %v", name, shared, s.steps)
			}
		}
		return nil
	})
}

// clear ends all pods, so that the next sequence finds the CPU free.
func (s *sequence) clear() {
	s.Helper()
	for _, name := range s.pods {
		s.delete(name)
	}
	s.env.Eventually(s, func() error {
		pods, err := s.env.Pods(s.Context(), s.namespace)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	})
}
