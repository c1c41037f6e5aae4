package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestAGroupWithoutPodsSaysSo: no scheduler is named in the groups, as a new user writes them. What is said, by the scheduler and
// without it, is held against the pods, the Jobs and the events that the API server has.
func TestAGroupWithoutPodsSaysSo(t *testing.T) {
	a := newArena(t, "words-groups", 1)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	inspectable(t, a.ns)
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--leader-elect-namespace=" + a.ns}})
	asked := map[string][]string{"objects": nil, "scheduler": {"--scheduler-server", scheduler.URL, "--scheduler-namespace", a.ns}}
	job := func(name, group string, suspended bool) *batchv1.Job {
		template := env.Pod(a.ns, "unused", cpu("1"), ofClass(a.low), harness.PodLabels(map[string]string{v1alpha1.LabelPodGroup: group}))
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: a.ns, Name: name}, Spec: batchv1.JobSpec{
			Parallelism: new(int32(2)), Completions: new(int32(2)), Suspend: &suspended,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		}}
	}
	for _, name := range []string{"empty", "training", "unserved", "suspended", "refused", "forgotten"} {
		unnamed := group(a.ns, name, 2)
		unnamed.Spec.SchedulerName = ""
		env.Create(t, unnamed)
	}
	env.Create(t, members(a.ns, "trainnig", "lost-", 2)...)
	env.Create(t, members(a.ns, "unserved", "tuti-", 2, harness.ScheduledBy("tuti"))...)
	env.Create(t, members(a.ns, "forgotten", "kube-", 2, harness.ScheduledBy(corev1.DefaultSchedulerName))...)
	env.Create(t, job("waits", "suspended", true),
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: a.ns, Name: "full"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("6")},
		}})
	env.Eventually(t, func() error { // the quota counts the six pods before the Job is made
		quota := &corev1.ResourceQuota{}
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: a.ns, Name: "full"}, quota)
		if used := quota.Status.Used[corev1.ResourcePods]; err == nil && used.Value() != 6 {
			err = fmt.Errorf("the quota counts %s pods", used.String())
		}
		return err
	})
	env.Create(t, job("exceeds", "refused", false))

	noPods := func(name string) string {
		return "needs 2, 0 exist; no pod with the schedulerName \"tutti\" names it: a pod does by the label " + v1alpha1.LabelPodGroup + ": " + name
	}
	for name, want := range map[string]struct {
		message string
		why     func() []string
	}{
		"empty": {noPods("empty"), func() []string { return nil }},
		"training": {noPods("training"), func() []string {
			return []string{`of PodGroup "trainnig", which does not exist; is the label misspelt?`}
		}},
		"suspended": {noPods("suspended"), func() []string { return []string{`Job "waits" is suspended (spec.suspend)`} }},
		"refused": {noPods("refused"), func() []string {
			events := &corev1.EventList{}
			if err := env.Client.List(t.Context(), events, client.InNamespace(a.ns)); err != nil {
				t.Fatal(err)
			}
			for _, event := range events.Items {
				if event.InvolvedObject.Name == "exceeds" && strings.Contains(event.Message, "exceeded quota") {
					return []string{`Job "exceeds": Error creating: pods "exceeds-`, "exceeded quota: full, requested: pods=1, used: pods=6, limited: pods=6"}
				}
			}
			return []string{"an event of the API server"}
		}},
		"forgotten": {`needs 2, 0 exist; pods with another schedulerName are no members: "forgotten-`, func() []string { return []string{`are no members: "forgotten-kube-`} }},
		"unserved":  {"", func() []string { return []string{`left to "tuti" by spec.schedulerName`, "is the name misspelt"} }},
	} {
		env.Eventually(t, func() error {
			group := &v1alpha1.PodGroup{}
			if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: a.ns, Name: name}, group); err != nil {
				return err
			}
			said := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled)
			isSaid := said != nil && said.Status == metav1.ConditionFalse && said.Reason == "NotEnoughMembers" && strings.HasPrefix(said.Message, want.message)
			if want.message != "" && (!isSaid || group.Status.Phase != v1alpha1.PodGroupPending) || want.message == "" && said != nil {
				return fmt.Errorf("%s: phase %q, %+v", name, group.Status.Phase, said)
			}
			for who, flags := range asked {
				text, err := harness.RunCommand(t.Context(), program,
					append([]string{"why", name, "-n", a.ns, "--kubeconfig", env.Cluster.Kubeconfig()}, flags...)...)
				if strings.Contains(text, "no scheduler runs") || strings.Contains(text, "see its log") {
					err = errors.New("blames the scheduler:\n" + text)
				}
				if err := saysAll(text, err, want.why()...); err != nil {
					return fmt.Errorf("from the %s: %w", who, err)
				}
			}
			return nil
		})
	}
}
