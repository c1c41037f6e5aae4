package e2e

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

// visitor asks the server for things, under a name.
type visitor struct {
	*testing.T
	kubernetes.Interface
}

// everything is a group that may do everything with the objects of the tests, so that only policies refuse, and has no right
// that policies ask for.
const everything = "everything"

// allowEverything gives that group its rights.
func allowEverything(t *testing.T, lab *harness.Env) {
	t.Helper()
	about := metav1.ObjectMeta{Name: everything}
	lab.Create(t, &rbacv1.ClusterRole{ObjectMeta: about, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "coordination.k8s.io", "resource.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"scheduling.tutti.dev"}, Resources: []string{"podgroups", "podgroups/status", "queues", "queues/status"}, Verbs: []string{"*"}},
	}}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: about, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: everything}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: everything},
	})
}

// as returns a visitor of that name, who may do everything.
func as(t *testing.T, lab *harness.Env, user string, extra map[string][]string) visitor {
	t.Helper()
	config := rest.CopyConfig(lab.Cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{everything}, Extra: extra}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return visitor{t, clients}
}

// isolated is a pod with one container that asks for isolated CPUs.
func isolated(name, containers, cpu string, change ...harness.PodOption) *corev1.Pod {
	options := []harness.PodOption{
		harness.ScheduledBy("absent"), harness.PodAnnotations(map[string]string{"isolcpu.tutti.dev/cpus": containers}),
		func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}}
		},
	}
	return env.Pod("isolated", name, append(options, change...)...)
}

func (v visitor) create(pod *corev1.Pod) error {
	_, err := v.CoreV1().Pods(pod.Namespace).Create(v.Context(), pod, metav1.CreateOptions{})
	return err
}

func (v visitor) patch(pod, text string, subresources ...string) error {
	_, err := v.CoreV1().Pods("isolated").Patch(v.Context(), pod, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{},
		subresources...)
	return err
}

func (v visitor) patchNode(node, text string, subresources ...string) error {
	_, err := v.CoreV1().Nodes().Patch(v.Context(), node, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{},
		subresources...)
	return err
}

// bind binds a pod; legacy asks for it as the API did before pods had subresources.
func (v visitor) bind(pod, node string, annotations map[string]string, legacy bool) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "isolated", Name: pod, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if !legacy {
		return v.CoreV1().Pods("isolated").Bind(v.Context(), binding, metav1.CreateOptions{})
	}
	return v.CoreV1().RESTClient().Post().Namespace("isolated").Resource("bindings").Body(binding).Do(v.Context()).Error()
}

func (v visitor) resize(pod, resource, amount string) error {
	return v.patch(pod, fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{%q:%q}}}]}}`,
		resource, amount), "resize")
}

// refused wants an answer that a policy gave, with those words.
func refused(t *testing.T, what string, err error, words string) {
	t.Helper()
	if (!apierrors.IsForbidden(err) && !apierrors.IsInvalid(err)) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") ||
		!strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v, want a policy's refusal with %q", what, err, words)
	}
}

func allowed(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// assertPolicies asks the server for everything that the policies of isolated CPUs are there to refuse, and for what is next to
// it and must go on.
func assertPolicies(t *testing.T, lab *harness.Env, nodes []*corev1.Node) {
	allowEverything(t, lab)
	lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "isolated"}})
	user := as(t, lab, "user", nil)
	forged := func(p *corev1.Pod) { p.Annotations["isolcpu.tutti.dev/assigned"] = "{}" }
	lab.Eventually(t, func() error { // until the server knows of the policies
		if err := user.create(isolated("early", "true", "1", forged)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a forged assignment: %v", err)
		}
		return nil
	})
	t.Run("requests", func(t *testing.T) { assertRequests(t, user) })
	t.Run("assigned", func(t *testing.T) { assertAssigned(t, lab, user, nodes[0].Name) })
	t.Run("resize", func(t *testing.T) { assertResize(t, user) })
	t.Run("agent", func(t *testing.T) { assertAgent(t, lab, nodes[0].Name, nodes[1].Name) })
	t.Run("guards", func(t *testing.T) { assertGuards(t, lab, nodes[0].Name) })
	t.Run("lease", func(t *testing.T) { assertLease(t, lab, nodes[0].Name, nodes[1].Name) })
	if err := lab.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("isolated"), client.GracePeriodSeconds(0)); err != nil {
		t.Error(err)
	}
}

func assertRequests(t *testing.T, user visitor) {
	for _, c := range []struct{ name, containers, cpu, words string }{
		{"unknown", "other", "2", "no container is named other"},
		{"unknown-too", "main,other", "2", "no container is named other"},
		{"nothing", "", "2", "no container is named"},
		{"half", "true", "1500m", "requests.cpu of main"},
		{"zero", "main", "0", "requests.cpu of main"},
		{"comma", "main,", "2", "no container is named"},
		{"spelling", "True", "2", "no container is named True"},
		{"tiny", "true", "1u", "requests.cpu of main"},
	} {
		refused(t, c.name, user.create(isolated(c.name, c.containers, c.cpu)), c.words)
	}
	refused(t, "half of one of two", user.create(isolated("two", "true", "2", beside("side", "500m"))), "requests.cpu of side")
	refused(t, "half of a pod as a whole", user.create(isolated("whole", "main", "2", wholePod("2500m"))), "spec.resources.requests.cpu")
	for key, word := range map[string]string{"smt": "off", "numa": ""} {
		policy := func(p *corev1.Pod) { p.Annotations["isolcpu.tutti.dev/"+key] = word }
		refused(t, key, user.create(isolated(key, "true", "2", policy)), "isolcpu.tutti.dev/"+key+" must be")
	}
	allowed(t, "one of two", user.create(isolated("one-of-two", "main", "2", beside("side", "500m"))))
	allowed(t, "a pod as a whole", user.create(isolated("whole", "main", "2", wholePod("4"), beside("side", ""))))
	allowed(t, "policies", user.create(isolated("policies", "true", "2", func(p *corev1.Pod) {
		p.Annotations["isolcpu.tutti.dev/smt"], p.Annotations["isolcpu.tutti.dev/numa"] = "one-per-core", "required"
	})))
	allowed(t, "all", user.create(isolated("all", "true", "2")))
	allowed(t, "by name", user.create(isolated("named", " main", "2000m")))
	allowed(t, "init container by name", user.create(isolated("init", "first", "100m", func(p *corev1.Pod) {
		first := p.Spec.Containers[0]
		first.Name, first.Resources.Requests = "first", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		p.Spec.InitContainers = []corev1.Container{first}
	})))
	allowed(t, "without", user.create(isolated("plain", "", "1500m", func(p *corev1.Pod) { p.Annotations = nil })))
}

// beside adds a container with so much CPU, and the memory that the other one has.
func beside(name, cpu string) harness.PodOption {
	return func(p *corev1.Pod) {
		c := *p.Spec.Containers[0].DeepCopy()
		c.Name = name
		if delete(c.Resources.Requests, corev1.ResourceCPU); cpu != "" {
			c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// wholePod lets the pod as a whole ask for so much CPU.
func wholePod(cpu string) harness.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
}

// debug adds an ephemeral container to a pod, and a forged assignment. The server says that others have changed the pod
// meanwhile before it asks a policy.
func (v visitor) debug(pod string) error {
	pods := v.CoreV1().Pods("isolated")
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := pods.Get(v.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Annotations["isolcpu.tutti.dev/assigned"] = "forged"
		object.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug"},
		}}
		_, err = pods.UpdateEphemeralContainers(v.Context(), pod, object, metav1.UpdateOptions{})
		return err
	})
}

// assertUnforged wants a pod to have been assigned just that, nothing when it is empty.
func assertUnforged(t *testing.T, user visitor, name, want string) {
	t.Helper()
	pod, err := user.CoreV1().Pods("isolated").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || pod.Annotations["isolcpu.tutti.dev/assigned"] != want {
		t.Errorf("pod %s has annotations %v, %v; want %q", name, pod.Annotations, err, want)
	}
}

func assertAssigned(t *testing.T, lab *harness.Env, user visitor, node string) {
	assigned := map[string]string{"isolcpu.tutti.dev/assigned": `{"v":1}`}
	text := `{"metadata":{"annotations":{"isolcpu.tutti.dev/assigned":"{}"}}}`
	allowed(t, "create", user.create(isolated("mine", "true", "1")))
	kubelet := as(t, lab, "system:node:"+node, nil)
	refused(t, "patch", user.patch("mine", text), "written by the scheduler")
	refused(t, "patch of the status", kubelet.patch("mine", text, "status"), "written by the scheduler")
	refused(t, "another request", user.patch("mine", `{"metadata":{"annotations":{"isolcpu.tutti.dev/cpus":"main"}}}`), "cannot be changed")
	refused(t, "no request", user.patch("mine", `{"metadata":{"annotations":{"isolcpu.tutti.dev/cpus":null}}}`), "cannot be changed")
	refused(t, "a new policy", user.patch("mine", `{"metadata":{"annotations":{"isolcpu.tutti.dev/smt":"one-per-core"}}}`), "cannot be changed")
	refused(t, "by the status", kubelet.patch("mine", `{"metadata":{"annotations":{"isolcpu.tutti.dev/cpus":"main"}}}`, "status"), "cannot be changed")
	refused(t, "an empty one", user.patch("mine", `{"metadata":{"annotations":{"isolcpu.tutti.dev/assigned":""}}}`), "written by the scheduler")
	allowed(t, "another annotation", user.patch("mine", `{"metadata":{"annotations":{"note":"x"}}}`))
	allowed(t, "the status", kubelet.patch("mine", `{"status":{"message":"x"}}`, "status"))

	// A request for other parts of a pod changes its annotations no more than it is let, whether it is refused or not heeded.
	if err := user.debug("mine"); err != nil {
		refused(t, "with a debug container", err, "written by the scheduler")
	}
	_ = user.patch("mine", `{"metadata":{"annotations":{"isolcpu.tutti.dev/assigned":"forged","isolcpu.tutti.dev/cpus":"x"}},
		"spec":{"containers":[{"name":"main","resources":{"requests":{"memory":"2Gi"}}}]}}`, "resize")
	assertUnforged(t, user, "mine", "")

	refused(t, "binding", user.bind("mine", node, assigned, false), "is written by schedulers")
	refused(t, "legacy binding", user.bind("mine", node, assigned, true), "is written by schedulers")
	for _, name := range []string{"elsewhere:tutti-scheduler", release.Namespace + ":tutti-agent", release.Namespace + ":default"} {
		other := as(t, lab, "system:serviceaccount:"+name, nil)
		refused(t, "binding by "+name, other.bind("mine", node, assigned, false), "is written by schedulers")
	}
	empty := map[string]string{"isolcpu.tutti.dev/assigned": ""}
	refused(t, "binding with an empty one", user.bind("mine", node, empty, false), "is written by schedulers")
	scheduler := as(t, lab, "system:serviceaccount:"+release.Namespace+":tutti-scheduler", nil)
	for _, key := range []string{"cpus", "smt", "numa"} {
		other := map[string]string{"isolcpu.tutti.dev/" + key: "main"}
		refused(t, "another "+key, user.bind("mine", node, other, false), "cannot be changed by a binding")
		refused(t, "another "+key+" by the scheduler", scheduler.bind("mine", node, other, true), "cannot be changed by a binding")
	}
	allowed(t, "the scheduler's binding", scheduler.bind("mine", node, assigned, false))
	pod, err := user.CoreV1().Pods("isolated").Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil || pod.Annotations["isolcpu.tutti.dev/assigned"] != `{"v":1}` || pod.Spec.NodeName != node {
		t.Errorf("after the binding: on %q, annotations %v, %v", pod.Spec.NodeName, pod.Annotations, err)
	}
	refused(t, "taken away", scheduler.patch("mine", `{"metadata":{"annotations":{"isolcpu.tutti.dev/assigned":null}}}`), "written by the scheduler")
	refused(t, "replaced", scheduler.patch("mine", text), "written by the scheduler")
	refused(t, "taken away by the status", kubelet.patch("mine", `{"metadata":{"annotations":null}}`, "status"), "written by the scheduler")
	if err := user.debug("mine"); err != nil {
		refused(t, "with a debug container", err, "written by the scheduler")
	}
	assertUnforged(t, user, "mine", `{"v":1}`)
	refused(t, "an empty request of a pod without", user.patch("plain", `{"metadata":{"annotations":{"isolcpu.tutti.dev/cpus":""}}}`),
		"cannot be changed")
	allowed(t, "create", user.create(isolated("other", "true", "1")))
	allowed(t, "a binding without", user.bind("other", node, nil, false))
}

func assertResize(t *testing.T, user visitor) {
	allowed(t, "create", user.create(isolated("resize", "true", "2")))
	refused(t, "more CPUs", user.resize("resize", "cpu", "3"), "cannot be changed; its memory can")
	allowed(t, "more memory", user.resize("resize", "memory", "2Gi"))
	allowed(t, "create", user.create(isolated("mixed", "main", "2", beside("side", "500m"))))
	refused(t, "more CPUs beside", user.patch("mixed",
		`{"spec":{"containers":[{"name":"side","resources":{"requests":{"cpu":"1"}}}]}}`, "resize"), "cannot be changed; its memory can")
	allowed(t, "the same CPUs in other words", user.resize("resize", "cpu", "2000m"))
	allowed(t, "create", user.create(isolated("ordinary", "", "2", func(p *corev1.Pod) { p.Annotations = nil })))
	allowed(t, "more CPUs for an ordinary pod", user.resize("ordinary", "cpu", "3"))
}

func assertAgent(t *testing.T, lab *harness.Env, own, other string) {
	agent := as(t, lab, "system:serviceaccount:"+release.AgentNamespace+":tutti-agent",
		map[string][]string{"authentication.kubernetes.io/node-name": {own}})
	topology := `{"metadata":{"annotations":{"isolcpu.tutti.dev/topology":"{}"}}}`
	nothingElse := "and nothing else"
	allowed(t, "its own", agent.patchNode(own, topology))
	allowed(t, "another text", agent.patchNode(own, `{"metadata":{"annotations":{"isolcpu.tutti.dev/topology":"x"}}}`))
	refused(t, "another node", agent.patchNode(other, topology), "this is "+other)
	for what, text := range map[string]string{
		"a taint":               `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`,
		"unschedulable":         `{"spec":{"unschedulable":true}}`,
		"a label":               `{"metadata":{"labels":{"a":"b"}}}`,
		"a label taken":         `{"metadata":{"labels":{"kubernetes.io/hostname":null}}}`,
		"another's annotation":  `{"metadata":{"annotations":{"a":""}}}`,
		"a finalizer":           `{"metadata":{"finalizers":["example.com/a"]}}`,
		"one's own and a label": `{"metadata":{"labels":{"a":"b"},"annotations":{"isolcpu.tutti.dev/topology":"y"}}}`,
	} {
		refused(t, what, agent.patchNode(own, text), nothingElse)
	}
	refused(t, "its annotation by the status", agent.patchNode(own, topology, "status"), nothingElse)
	refused(t, "all annotations taken", agent.patchNode(own, `{"metadata":{"annotations":null}}`), nothingElse)
	refused(t, "the status", agent.patchNode(own, `{"status":{"capacity":{"cpu":"64"}}}`, "status"), nothingElse)
	refused(t, "delete", agent.CoreV1().Nodes().Delete(t.Context(), own, metav1.DeleteOptions{}), nothingElse)
	user := as(t, lab, "user", nil)
	allowed(t, "another client's annotation", user.patchNode(own, `{"metadata":{"annotations":{"theirs":"x"}}}`))
	refused(t, "theirs taken", agent.patchNode(own, `{"metadata":{"annotations":{"theirs":null}}}`), nothingElse)
	allowed(t, "a label by another client", user.patchNode(own, `{"metadata":{"labels":{"a":"b"}}}`))
	lost := as(t, lab, "system:serviceaccount:"+release.AgentNamespace+":tutti-agent", nil)
	refused(t, "an agent that is on no node", lost.patchNode(own, topology), "this is "+own)
	allowed(t, "its own taken", agent.patchNode(own, `{"metadata":{"annotations":{"isolcpu.tutti.dev/topology":null}}}`))
}

// assertLease lets an agent write the sign of life of its own node alone.
func assertLease(t *testing.T, lab *harness.Env, own, other string) {
	name := "system:serviceaccount:" + release.AgentNamespace + ":tutti-agent"
	agent := as(t, lab, name, map[string][]string{"authentication.kubernetes.io/node-name": {own}})
	lost, user := as(t, lab, name, nil), as(t, lab, "user", nil)
	write := func(v visitor, lease string) error {
		leases := v.CoordinationV1().Leases(release.AgentNamespace)
		_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease}}, metav1.CreateOptions{})
		return err
	}
	renew := func(v visitor, lease string) error {
		_, err := v.CoordinationV1().Leases(release.AgentNamespace).Patch(t.Context(), lease, types.MergePatchType,
			[]byte(`{"spec":{"holderIdentity":"x"}}`), metav1.PatchOptions{})
		return err
	}
	remove := func(v visitor, lease string) error {
		return v.CoordinationV1().Leases(release.AgentNamespace).Delete(t.Context(), lease, metav1.DeleteOptions{})
	}
	mine, theirs := "isolcpu-"+own, "isolcpu-"+other
	refused(t, "before there is one, of another node", write(agent, theirs), "this is "+theirs)
	refused(t, "of no node", write(lost, mine), "this is "+mine)
	allowed(t, "its own", write(agent, mine))
	allowed(t, "its own again", renew(agent, mine))
	allowed(t, "another client's", write(user, theirs))
	allowed(t, "the leader's", write(user, "leader"))
	for _, lease := range []string{theirs, "leader"} {
		refused(t, "renewed", renew(agent, lease), "this is "+lease)
		refused(t, "deleted", remove(agent, lease), "this is "+lease)
		allowed(t, "renewed by another client", renew(user, lease))
		allowed(t, "deleted by another client", remove(user, lease))
	}
	allowed(t, "its own deleted", remove(agent, mine))
}
