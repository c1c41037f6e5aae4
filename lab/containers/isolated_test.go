package containers

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
)

// isolated asks for an isolated CPU for the pod's container. There is one, number 1, since a machine may have no more than two.
func isolated() harness.PodOption {
	return func(p *corev1.Pod) {
		p.Annotations["isolcpu.tutti.dev/cpus"] = "true"
		harness.Requests(map[string]string{"cpu": "1"})(p)
	}
}

// TestIsolatedCPUsOnTheKernel plays sequences of starts and ends of pods, with isolated CPUs and without, of kills of the agent
// and of restarts of containerd. What the kernel says of each container is read from its control group: never do two containers
// have the isolated CPU, and at rest its owner has it alone and no other container has it. SEQUENCES is how many are played, 3 by
// default; SEED is the first one's seed.
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
		agent := s.agent()
		kill(s.T, s.env, agent)
		return "kill the agent"
	case kind == 2:
		if err := errors.Join(m.Kill(node.Containerd), m.StartProgram(s.Context(), node.Containerd)); err != nil {
			s.Fatal(err)
		}
		return "restart containerd"
	case kind == 3:
		return "start " + s.start("ordinary")
	default:
		return "start " + s.start("isolated", isolated())
	}
}

func (s *sequence) start(kind string, options ...harness.PodOption) string {
	s.Helper()
	s.made++
	name := fmt.Sprintf("%s-%d", kind, s.made)
	s.env.Create(s, pod(s.env, s.namespace, name, `sleep infinity`, append(options, onNode(quiet), grace(1))...))
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

// running are the containers of the test's pods that run now, with the CPUs that the kernel lets them use.
func (s *sequence) running() (isolated, ordinary map[string]string) {
	s.Helper()
	pods, err := s.env.Pods(s.Context(), s.namespace)
	if err != nil {
		s.Fatal(err)
	}
	isolated, ordinary = map[string]string{}, map[string]string{}
	for _, p := range pods {
		for _, status := range p.Status.ContainerStatuses {
			if status.State.Running == nil {
				continue
			}
			cpus, err := machine(s.T, s.env, quiet).CPUs(strings.TrimPrefix(status.ContainerID, "containerd://"))
			if err != nil {
				continue // it has just ended
			}
			if strings.HasPrefix(p.Name, "isolated") {
				isolated[p.Name] = cpus
			} else {
				ordinary[p.Name] = cpus
			}
		}
	}
	return isolated, ordinary
}

// neverShared holds at each moment.
func (s *sequence) neverShared() {
	s.Helper()
	if isolated, _ := s.running(); len(isolated) > 1 {
		s.Errorf("%v run with the one isolated CPU after %v", isolated, s.steps)
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
		isolated, ordinary := s.running()
		if len(ordinary) != want["ordinary"] || len(isolated) != min(1, want["isolated"]) {
			return fmt.Errorf("%v and %v run, want %v after %v", isolated, ordinary, want, s.steps)
		}
		for name, cpus := range isolated {
			if cpus != "1" {
				return fmt.Errorf("%s has the CPUs %s, want 1 after %v", name, cpus, s.steps)
			}
		}
		for name, cpus := range ordinary {
			if slices.Contains(strings.FieldsFunc(cpus, func(r rune) bool { return r == ',' || r == '-' }), "1") {
				return fmt.Errorf("%s has the CPUs %s, and 1 is isolated after %v", name, cpus, s.steps)
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
