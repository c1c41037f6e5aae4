package containers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
	"github.com/tutti-sched/tutti/lab/operators"
)

var (
	mpi     = installed(operators.MPI(""))
	openMPI = imported(node.OpenMPI())
)

// mpiJob is the sample of an MPIJob in a namespace.
type mpiJob struct {
	*testing.T
	env       *harness.Env
	namespace string
}

// beginMPI applies the sample, after changes of its text: each pair is replaced.
func beginMPI(t *testing.T, changes ...string) *mpiJob {
	t.Helper()
	env, ns := begin(t, mpi, openMPI)
	j := &mpiJob{T: t, env: env, namespace: ns}
	sample(t, env, ns, "mpijob.yaml", append(changes, "mpioperator/mpi-pi:openmpi", node.OpenMPI().Reference())...)
	return j
}

// of are the pods of a role, launcher or worker, that are not being deleted.
func (j *mpiJob) of(role string) []corev1.Pod {
	j.Helper()
	pods, err := j.env.Pods(j.Context(), j.namespace, client.MatchingLabels{"training.kubeflow.org/job-role": role})
	if err != nil {
		j.Fatal(err)
	}
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// eventually waits until so many pods of a role are in a phase.
func (j *mpiJob) eventually(role string, count int, phase corev1.PodPhase) (pods []corev1.Pod) {
	j.Helper()
	j.env.Eventually(j, func() error {
		pods = slices.DeleteFunc(j.of(role), func(p corev1.Pod) bool { return p.Status.Phase != phase })
		if len(pods) != count {
			return fmt.Errorf("%d of the role %s are %s, want %d", len(pods), role, phase, count)
		}
		return nil
	})
	return pods
}

var rank = regexp.MustCompile(`rank (\d) of 3 on (pi-worker-\d)`)

// TestAnMPIProgramRuns: the sample as it is. mpirun reaches all workers, which compute together; when it has ended, the workers
// go.
func TestAnMPIProgramRuns(t *testing.T) {
	j := beginMPI(t)
	launcher := j.eventually("launcher", 1, corev1.PodSucceeded)[0]
	said := logs(t, j.env, j.namespace, launcher.Name, "")
	t.Logf("the launcher on %s said:\n%s", launcher.Spec.NodeName, said)
	hosts := map[string]bool{}
	for _, found := range rank.FindAllStringSubmatch(said, -1) {
		hosts[found[1]+found[2]] = true
	}
	if len(hosts) != 3 || !strings.Contains(said, "pi is about 3.14") {
		t.Error("want three ranks, each on a worker of its own, and pi")
	}
	j.env.Eventually(t, func() error {
		if left := j.of("worker"); len(left) > 0 {
			return fmt.Errorf("%d workers are left (cleanPodPolicy Running)", len(left))
		}
		return nil
	})
}

// TestAnMPIJobIsSuspendedAndResumed: its containers end and it starts again, whole.
func TestAnMPIJobIsSuspendedAndResumed(t *testing.T) {
	j := beginMPI(t, "/home/mpiuser/pi", "sh, -c, 'sleep infinity'")
	j.eventually("launcher", 1, corev1.PodRunning)
	suspend := func(yes bool) {
		patch := fmt.Sprintf(`{"spec":{"runPolicy":{"suspend":%t}}}`, yes)
		if _, err := j.env.Cluster.Kubectl(t.Context(), "patch", "mpijob", "pi", "--namespace", j.namespace, "--type=merge", "--patch", patch); err != nil {
			t.Fatal(err)
		}
	}
	suspend(true)
	j.env.Eventually(t, func() error {
		if left := len(j.of("launcher")) + len(j.of("worker")); left > 0 {
			return fmt.Errorf("%d pods are left", left)
		}
		return nil
	})
	suspend(false)
	j.eventually("worker", 3, corev1.PodRunning)
	j.eventually("launcher", 1, corev1.PodRunning)
}

// TestALauncherThatFails: its Job makes another launcher, which joins the workers that run, and they compute.
func TestALauncherThatFails(t *testing.T) {
	j := beginMPI(t, "    Launcher:\n", "    Launcher:\n      restartPolicy: Never\n", `[mpirun, -n, "3", /home/mpiuser/pi]`,
		`[sh, -c, 'until ssh pi-worker-0.pi true; do sleep 1; done; ssh pi-worker-0.pi mkdir /tmp/failed && exit 1; exec mpirun -n 3 /home/mpiuser/pi']`)
	workers := names(j.eventually("worker", 3, corev1.PodRunning))
	j.eventually("launcher", 1, corev1.PodFailed)
	launcher := j.eventually("launcher", 1, corev1.PodSucceeded)[0]
	if said := logs(t, j.env, j.namespace, launcher.Name, ""); !strings.Contains(said, "pi is about 3.14") {
		t.Errorf("the second launcher said %q", said)
	}
	if reached := logs(t, j.env, j.namespace, workers[0], ""); strings.Count(reached, "Accepted publickey") < 2 {
		t.Errorf("the first worker was not there for both launchers: %q", reached)
	}
}

// TestWorkersOfAnMPIJobThatHasEnded: cleanPodPolicy None keeps all workers, Running those that have ended, All none. The launcher
// stays.
func TestWorkersOfAnMPIJobThatHasEnded(t *testing.T) {
	env, ns := begin(t, mpi, openMPI)
	kept := map[string][]string{
		"None":    {"none-worker-0", "none-worker-1", "none-worker-2"},
		"Running": {"running-worker-2"},
		"All":     nil,
	}
	pods := func(policy, role string) []corev1.Pod {
		all, err := env.Pods(t.Context(), ns, client.MatchingLabels{
			"training.kubeflow.org/job-name": strings.ToLower(policy), "training.kubeflow.org/job-role": role,
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	// The last worker ends at once, and the launcher when a file is there.
	for policy := range kept {
		sample(t, env, ns, "mpijob.yaml", "mpioperator/mpi-pi:openmpi", node.OpenMPI().Reference(),
			"name: pi\n", "name: "+strings.ToLower(policy)+"\n", "cleanPodPolicy: Running", "cleanPodPolicy: "+policy, "cpu: 500m", "cpu: 100m",
			`[mpirun, -n, "3", /home/mpiuser/pi]`, `[sh, -c, 'until [ -e /tmp/end ]; do sleep 0.1; done']`,
			"[/usr/sbin/sshd, -De, -f, /home/mpiuser/.sshd_config]", `[sh, -c, 'case $(hostname) in *-2) ;; *) trap exit TERM; sleep infinity & wait ;; esac']`)
	}
	for _, policy := range []string{"None", "Running", "All"} { // so the operator has time for the first one
		job := strings.ToLower(policy)
		eventuallyPod(t, env, ns, job+"-worker-0", in(corev1.PodRunning))
		eventuallyPod(t, env, ns, job+"-worker-1", in(corev1.PodRunning))
		eventuallyPod(t, env, ns, job+"-worker-2", in(corev1.PodSucceeded))
		env.Eventually(t, func() error {
			launchers := pods(policy, "launcher")
			if len(launchers) != 1 || launchers[0].Status.Phase != corev1.PodRunning {
				return fmt.Errorf("the launchers of job %s are %v, want one that runs", job, names(launchers))
			}
			return nil
		})
		if _, err := env.Cluster.Kubectl(t.Context(), "exec", pods(policy, "launcher")[0].Name, "--namespace", ns, "--", "touch", "/tmp/end"); err != nil {
			t.Fatal(err)
		}
		await(t, env, ns, "mpijob/"+job, "Succeeded")
	}
	left := func(policy string) error {
		workers, launchers := names(pods(policy, "worker")), pods(policy, "launcher")
		if !slices.Equal(workers, kept[policy]) || len(launchers) != 1 {
			return fmt.Errorf("cleanPodPolicy %s leaves %v and %d launchers, want %v and one", policy, workers, len(launchers), kept[policy])
		}
		return nil
	}
	for _, policy := range []string{"All", "Running"} {
		env.Eventually(t, func() error { return left(policy) })
	}
	if err := left("None"); err != nil { // that job ended before the others
		t.Error(err)
	}
}

// names are those of pods, sorted.
func names(pods []corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// TestAnMPIJobThatDoesNotFit waits as a whole, runs no container, and says how many members fit; with room for all of them it
// runs.
func TestAnMPIJobThatDoesNotFit(t *testing.T) {
	env := lab(t)
	slots(t, env, "real-0", 2)
	j := beginMPI(t, "cpu: 500m, memory: 256Mi}", "cpu: 100m, memory: 64Mi, "+slot+": 1}\n              limits: {"+slot+": 1}")
	j.eventually("worker", 3, corev1.PodPending)
	env.Eventually(t, func() (err error) { // the oldest of them says it, for all
		for _, p := range append(j.of("launcher"), j.of("worker")...) {
			if err = unschedulable("needs 4, 3 would fit")(&p); err == nil {
				return nil
			}
		}
		return err
	})
	slots(t, env, "real-1", 1)
	j.eventually("launcher", 1, corev1.PodSucceeded)
}
