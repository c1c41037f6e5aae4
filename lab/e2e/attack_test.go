package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/process"
)

const (
	// attackers is the namespace of the account that attacks, tenants that of the other tenant.
	attackers, tenants = "attackers", "tenants"
	// mostPods is the quota of pods of the account that attacks.
	mostPods = 40
	// startsWithin is how long a gang of the other tenant may wait for its last bind on a free machine.
	startsWithin = 2 * time.Second
	// mostSlower is how many times as long as without an attack that may take on average, on any machine. It is measured leastPace
	// times before it is too slow, and under leastTries attacks: what else the machine does may make some starts take long.
	mostSlower, leastPace, leastTries = 5, 5, 3
	// mostWrites is how many status writes about one object the scheduler may make in writesPeriod: one a second, and those of
	// a start.
	mostWrites, writesPeriod = 15, 10 * time.Second
	// mostOfNamespace is how many it may make about all pods, or all PodGroups, of a namespace in that time.
	mostOfNamespace = 5500
	// warmUp is how many gangs fill what the scheduler keeps of the last changes.
	warmUp = 60
	// contested is the node, and its pool, for whose 4 CPUs both tenants wait.
	contested = "contested"
	// spareNodes are for no pod: what the scheduler keeps for each resource, it keeps for each node.
	spareNodes = 300
	// podMemory is what the scheduler may hold of one pod, in bytes; docs/operations.md says so.
	podMemory = 256 << 10
)

// attackConfig lets a gang reserve capacity after a second, and gives victims a second to end.
const attackConfig = `apiVersion: config.tutti.dev/v1alpha1
kind: SchedulerConfiguration
actions: "allocate, backfill, preempt"
configurations:
- {name: backfill, arguments: {reserveAfter: 1s}}
- {name: preempt, arguments: {maxGrace: 1s}}
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
`

// siege is a cluster with a release, an account that attacks, and the other tenant.
type siege struct {
	*testing.T
	policies  bool // of the chart that restrict users are installed
	lab       *harness.Env
	own       client.Client // of the account
	token     string
	scheduler *process.Process
	// endpoint is where the scheduler serves metrics and what it shows of itself, profiles where it shows its heap.
	endpoint, profiles string
	gangs              int // of the other tenant, so far
	created            int // pods and groups of the account, so far
	// under is how the other tenant fares under the attack that is going on.
	under pace
}

// pace is how long gangs of the other tenant take to start, and how long it takes until it is written that a pod of it waits.
type pace struct{ starts, reports takings }

// pace measures both so often, while there is no attack.
func (s *siege) pace(times int) (p pace) {
	for range times {
		p.starts, p.reports = append(p.starts, s.start()), append(p.reports, s.reported())
	}
	return p
}

// slower reports whether it takes much longer than at another pace.
func (p pace) slower(than pace) bool {
	longer := func(now, before takings) bool { return len(now) > 0 && now.mean() > mostSlower*before.mean() }
	return longer(p.starts, than.starts) || longer(p.reports, than.reports)
}

// String says what it is like.
func (p pace) String() string {
	if len(p.reports) == 0 {
		return fmt.Sprintf("gangs of the other tenant start after %s", p.starts)
	}
	return fmt.Sprintf("gangs of the other tenant start after %s, that its pods wait is written after %s", p.starts, p.reports)
}

// hindered reports that under the last attack, which is over, everything took the other tenant much longer than before and now.
func (s *siege) hindered(quiet pace) bool {
	return s.under.slower(quiet) && s.under.slower(s.pace(leastPace))
}

// TestAttacks: an account with the role edit in a namespace with a quota tries to stop the scheduler, to get before others, to
// evict their pods, to hold more than its quota, to hide, to forge, to flood and to get out of its namespace. Each attempt is
// refused, or does not keep a gang of the other tenant from its start, or end one of its pods. The scheduler goes on, keeps its
// budgets of writes, and its heap is afterwards what it was before, with the same objects in the cluster. Where the chart's
// policies that restrict users are not installed the scheduler itself withstands what they refuse.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string]bool{"with policies": true, "without policies": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempts(t, policies)
		})
	}
}

// attempts makes the attempts one after the other, in a cluster of their own.
func attempts(t *testing.T, policies bool) {
	log := filepath.Join(t.TempDir(), "audit.log")
	s := newSiege(t, log, policies)
	standing := s.standing()
	for range warmUp {
		s.start()
	}
	quiet, under, tried := s.pace(leastPace), pace{}, 0
	s.large()
	s.rehearse()
	before := s.heap()
	for _, a := range attacks() {
		if !policies && (a.refused == always || a.refused == byPoliciesAlone) {
			t.Logf("%s: not tried without the policies: %s", a.name, cmp.Or(a.why, "refused before the scheduler sees it, with and without them"))
			continue
		}
		tried++
		s.attempt(a, quiet, before)
		for i := 1; i < leastTries && s.hindered(quiet); i++ {
			s.attempt(a, quiet, before)
		}
		if s.hindered(quiet) {
			t.Errorf("%s: %s, on average more than %d times of what it takes without an attack: %s", a.name, s.under, mostSlower, quiet)
		}
		under.starts, under.reports = append(under.starts, s.under.starts...), append(under.reports, s.under.reports...)
	}
	if now := s.standing(); !slices.Equal(now, standing) {
		t.Errorf("the pods that ran before the attacks were %v, and are %v", standing, now)
	}
	attacked := s.heap()
	for range warmUp { // the last changes are those of the other tenant again
		s.start()
	}
	after := s.heap()
	if after > before*12/10 {
		t.Errorf("the heap after the attacks is %d KiB, before them %d KiB, with the same objects", after>>10, before>>10)
	}
	t.Logf("RESULT attacks: %d; before, %s; under attack, %s; heap after a collection, in KiB: before %d, after the last %d, then %d",
		tried, quiet, under, before>>10, attacked>>10, after>>10)
	under.starts.check(t, "under attack a start of a gang of the other tenant", startsWithin)
	under.reports.check(t, "under attack the report that a pod of the other tenant waits", startsWithin)
	s.sound()
	s.writesInBudget(log)
}

// attempt makes one attempt, and measures how the other tenant fares under it. What is left of it is gone when it returns.
func (s *siege) attempt(a attack, quiet pace, heap uint64) {
	s.under = pace{}
	began := time.Now()
	err := a.try(s)
	lasted := time.Since(began).Round(100 * time.Millisecond)
	switch refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err); {
	case (a.refused == always || a.refused != never && s.policies) && !refused:
		s.Errorf("%s: %v, want it to be refused", a.name, err)
	case a.refused != always && !s.policies && refused:
		s.Errorf("%s: %v, want it to be let through", a.name, err)
	case err != nil && !refused && !apierrors.IsRequestEntityTooLargeError(err):
		s.Errorf("%s: %v", a.name, err)
	}
	s.under.starts = append(s.under.starts, s.start())
	for i := 0; i < leastPace && s.under.slower(quiet); i++ {
		s.under.starts = append(s.under.starts, s.start())
	}
	s.Logf("%s: answer %s after %s; %s", a.name, answer(err), lasted, s.under)
	s.lab.Eventually(s, func() error { // an object that is just being decoded is in the heap, too
		if held := s.heap(); held > heap*12/10+mostPods*podMemory {
			return fmt.Errorf("%s: the heap is %d KiB, before the attacks it was %d KiB", a.name, held>>10, heap>>10)
		}
		return nil
	})
	s.clear(attackers)
}

// answer names the answer of the server, without its text, which may be as long as the request.
func answer(err error) string {
	if err == nil {
		return "ok"
	}
	return string(apierrors.ReasonForError(err))
}

// attack is one attempt. try returns the answer of the server to its last request, and fails the test where more than that, and
// than what holds after every attempt, does not hold. why says why nothing but a policy stops it.
type attack struct {
	name    string
	refused refusal
	why     string
	try     func(s *siege) error
}

// refusal says what refuses an attempt, so that the scheduler does not see it.
type refusal int8

const (
	// never: nothing does.
	never refusal = iota
	// always: a role, a quota, the server itself, or a policy that is always installed.
	always
	// byPolicies: a policy that restricts users; without it the scheduler withstands the attempt.
	byPolicies
	// byPoliciesAlone: such a policy, and nothing else.
	byPoliciesAlone
)

// newSiege makes the cluster, and runs the scheduler as the chart has it.
func newSiege(t *testing.T, log string, policies bool) *siege {
	t.Helper()
	// A quota of a custom resource is counted at the next look over all quotas after the controller has found the resource.
	c := startAudited(t, log, "--resource-quota-sync-period=2s")
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &siege{T: t, policies: policies, lab: lab, endpoint: freeAddress(t), profiles: freeAddress(t)}
	nodes := cluster.Nodes("node", 4, map[string]string{"cpu": "8", "memory": "16Gi"})
	for _, pool := range []string{"small", contested} {
		nodes = append(nodes, cluster.Node(pool, map[string]string{"cpu": "4", "memory": "16Gi"}, cluster.NodeLabels(map[string]string{"pool": pool}),
			cluster.NodeTaints(corev1.Taint{Key: "pool", Value: pool, Effect: corev1.TaintEffectNoSchedule})))
	}
	for _, spare := range cluster.Nodes("spare", spareNodes, map[string]string{"cpu": "8"}) {
		spare.Spec.Unschedulable = true
		nodes = append(nodes, spare)
	}
	if err := c.CreateNodes(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	text, err := json.Marshal(map[string]any{"config": attackConfig, "tenancy": map[string]any{"policies": map[string]any{"enabled": policies}}})
	if err == nil {
		err = os.WriteFile(values, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := release.Install(t.Context(), c, chartFolder(t), "--values", values, "--set", "tenancy.policies.maxExtendedResources=20000"); err != nil {
		t.Fatal(err)
	}
	installed, err := release.Read(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	s.scheduler, err = installed.Start(t.Context(), c, "tutti-scheduler", program,
		"--metrics-bind-address="+s.endpoint, "--pprof-bind-address="+s.profiles)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.scheduler.Failure())
		}
	})
	s.account()
	return s
}

// account makes the two namespaces, the quota, and the account that attacks.
func (s *siege) account() {
	s.Helper()
	about := metav1.ObjectMeta{Namespace: attackers, Name: "attacker"}
	of := func(quantity string) resource.Quantity { return resource.MustParse(quantity) }
	s.lab.Create(s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attackers}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenants}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "meek"}, Value: 500, PreemptionPolicy: ptr.To(corev1.PreemptNever)},
		&corev1.ServiceAccount{ObjectMeta: about},
		&rbacv1.RoleBinding{
			ObjectMeta: about, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: attackers, Name: "attacker"}},
		},
		&corev1.ResourceQuota{ObjectMeta: about, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"pods": *resource.NewQuantity(mostPods, resource.DecimalSI), "requests.cpu": of("12"), "count/podgroups.scheduling.tutti.dev": of("20"),
		}}},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: attackers, Name: "high"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"pods": of("0")},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high", "meek"},
			}}},
		}})
	path, err := s.lab.Cluster.KubeconfigFor(s.Context(), attackers, "attacker")
	if err != nil {
		s.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		s.Fatal(err)
	}
	config.QPS, s.token = -1, config.BearerToken
	if s.own, err = client.New(config, client.Options{Scheme: s.lab.Client.Scheme()}); err != nil {
		s.Fatal(err)
	}
	s.lab.Eventually(s, func() error { // the controllers count the quotas, and put the rights together
		err := s.create(group(attackers, "first", 1))
		return errors.Join(err, s.quotaCounted())
	})
	s.clear(attackers)
}

// quotaCounted is nil when the controller has seen the quotas.
func (s *siege) quotaCounted() error {
	var quotas corev1.ResourceQuotaList
	if err := s.lab.Client.List(s.Context(), &quotas, client.InNamespace(attackers)); err != nil {
		return err
	}
	for i := range quotas.Items {
		if len(quotas.Items[i].Status.Hard) == 0 {
			return fmt.Errorf("quota %s is not counted", quotas.Items[i].Name)
		}
	}
	return nil
}

// create creates objects as the account that attacks, and returns the first error; that the object is there is none.
func (s *siege) create(objects ...client.Object) error {
	for _, object := range objects {
		// The server answers a conflict when too many write the quota at the same time.
		err := retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error { return s.own.Create(s.Context(), object) })
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		s.created++
	}
	return nil
}

// clear deletes what attempts leave in a namespace.
func (s *siege) clear(namespace string) {
	s.Helper()
	for _, all := range []client.Object{
		&v1alpha1.PodGroup{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{}, &corev1.PersistentVolumeClaim{}, &resourceapi.ResourceClaim{},
	} {
		if err := s.lab.Client.DeleteAllOf(s.Context(), all, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
			s.Fatal(err)
		}
	}
	if namespace == attackers {
		s.lab.Eventually(s, s.usesNoPods)
	}
}

// usesNoPods is nil when the quota of the account counts no pod.
func (s *siege) usesNoPods() error {
	var used corev1.ResourceQuota
	if err := s.lab.Client.Get(s.Context(), client.ObjectKey{Namespace: attackers, Name: "attacker"}, &used); err != nil {
		return err
	}
	if pods := used.Status.Used["pods"]; pods.Value() > 0 {
		return fmt.Errorf("the quota counts %d pods", pods.Value())
	}
	return nil
}

// standing starts the gang of the other tenant that fills the small node, or finds it, and returns the identities of its pods.
func (s *siege) standing() []string {
	s.Helper()
	if err := s.lab.Client.Get(s.Context(), client.ObjectKey{Namespace: tenants, Name: "standing"}, &v1alpha1.PodGroup{}); err != nil {
		s.lab.Create(s, group(tenants, "standing", 4))
		s.lab.Create(s, members(tenants, "standing", "", 4, onPool("small"))...)
		s.bound("standing", 4)
	}
	var names []string
	pods, err := s.lab.Pods(s.Context(), tenants, client.MatchingLabels{v1alpha1.LabelPodGroup: "standing"})
	if err != nil {
		s.Fatal(err)
	}
	for i := range pods {
		names = append(names, fmt.Sprintf("%s %s on %s, ends: %t", pods[i].Name, pods[i].UID, pods[i].Spec.NodeName, pods[i].DeletionTimestamp != nil))
	}
	return names
}

// onPool lets a pod go to the node of a pool alone.
func onPool(pool string) harness.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{"pool": pool}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
	}
}

// large lets the other tenant create a pod and a PodGroup that are as large as they may be: the buffer of a watch stays as large
// as the largest object was. The pod is refused for its size.
func (s *siege) large() {
	s.Helper()
	g, pod := group(tenants, "large", 1), s.lab.Pod(tenants, "large", harness.InGroup("large"), oneCPU)
	g.Annotations = map[string]string{"example.com/text": largeText[:250<<10]}
	pod.Annotations = g.Annotations
	largePods[0](pod)
	s.lab.Create(s, g, pod)
	s.start() // the watch shows it before this gang
	for _, object := range []client.Object{pod, g} {
		if err := s.lab.Client.Delete(s.Context(), object, client.GracePeriodSeconds(0)); err != nil {
			s.Fatal(err)
		}
	}
}

// rehearse fills what the scheduler keeps of rules of placement and of templates of pods, up to limits of its own.
func (s *siege) rehearse() {
	s.Helper()
	for _, a := range rules() {
		if a.refused == never {
			if err := a.try(s); err != nil {
				s.Fatal(err)
			}
			s.clear(attackers)
		}
	}
}

// start creates a gang of the other tenant, returns how long it took from its last pod to its last bind, and deletes it.
func (s *siege) start() time.Duration {
	s.Helper()
	name := fmt.Sprintf("gang-%d", s.gangs)
	s.gangs++
	g, pods := group(tenants, name, 4), members(tenants, name, "", 4)
	s.lab.Create(s, g)
	s.lab.Create(s, pods...)
	began := time.Now()
	s.bound(name, 4)
	took := time.Since(began)
	for _, object := range append(pods, g) {
		if err := s.lab.Client.Delete(s.Context(), object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
	}
	return took
}

func (s *siege) bound(name string, want int) {
	s.Helper()
	s.lab.Eventually(s, func() error {
		pods, err := s.lab.Pods(s.Context(), tenants, client.MatchingLabels{v1alpha1.LabelPodGroup: name})
		if err != nil {
			return err
		}
		return held(name, pods, want)
	})
}

// heapLine is where a profile says how much of the heap is in use, in bytes.
var heapLine = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heap is what is in use of the scheduler's heap after a garbage collection, in bytes.
func (s *siege) heap() uint64 {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+s.profiles+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		s.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	found := heapLine.FindSubmatch(text)
	if err != nil || found == nil {
		s.Fatalf("the profile does not say how much is in use: %s %v", answer.Status, err)
	}
	used, err := strconv.ParseUint(string(found[1]), 10, 64)
	if err != nil {
		s.Fatal(err)
	}
	return used
}

// sound wants the scheduler to run, and to have caught no panic.
func (s *siege) sound() {
	s.Helper()
	select {
	case <-s.scheduler.Done():
		s.Errorf("the scheduler has ended: %v", s.scheduler.Failure())
	default:
	}
	log, err := os.ReadFile(s.scheduler.LogFile())
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(strings.ToLower(line), "panic") {
			s.Errorf("the log has a panic: %s", line)
		}
	}
	if n := strings.Count(string(log), "Leading: scheduling starts"); n != 1 {
		s.Errorf("the scheduler began to lead %d times, want once", n)
	}
}

// writesInBudget wants no more status writes about any object of the account, and about all of them, in a period than there may
// be.
func (s *siege) writesInBudget(log string) {
	s.Helper()
	at, all := map[string][]time.Time{}, map[string][]time.Time{}
	for _, line := range (writeLog{log}).lines(s.T) {
		var e written
		if err := json.Unmarshal(line, &e); err != nil {
			s.Fatalf("%v in %s", err, line)
		}
		if e.ObjectRef.Namespace == attackers && e.ObjectRef.Subresource == "status" {
			object := e.ObjectRef.Resource + " " + e.ObjectRef.Name
			at[object] = append(at[object], e.RequestReceivedTimestamp.Time)
			all[e.ObjectRef.Resource] = append(all[e.ObjectRef.Resource], e.RequestReceivedTimestamp.Time)
		}
	}
	most := 0
	for object, times := range at {
		often := mostWithin(writesPeriod, times)
		if most = max(most, often); often > mostWrites && holdTimes() {
			s.Errorf("%s: %d status writes in %s, want at most %d", object, often, writesPeriod, mostWrites)
		}
		// A busy server receives in one period what was sent in two: all the time that there were writes is judged on any machine.
		if life := times[len(times)-1].Sub(times[0]); len(times) > mostWrites*(1+int(life/writesPeriod)) {
			s.Errorf("%s: %d status writes in %s, want at most %d in %s", object, len(times), life, mostWrites, writesPeriod)
		}
	}
	pods, groups := mostWithin(writesPeriod, all["pods"]), mostWithin(writesPeriod, all["podgroups"])
	if max(pods, groups) > mostOfNamespace && holdTimes() {
		s.Errorf("status writes in %s: %d about pods, %d about PodGroups, want at most %d of each", writesPeriod, pods, groups, mostOfNamespace)
	}
	s.Logf("RESULT attacks: the account created %d objects; status writes about its pods: %d, PodGroups: %d; at most %d, %d and about one %d in %s",
		s.created, len(all["pods"]), len(all["podgroups"]), pods, groups, most, writesPeriod)
	if pods == 0 || groups == 0 {
		s.Error("want status writes about pods and PodGroups")
	}
}

// mostWithin returns the largest number of times that are no further apart than a period.
func mostWithin(period time.Duration, times []time.Time) (most int) {
	slices.SortFunc(times, time.Time.Compare)
	for from, to := 0, 0; to < len(times); to++ {
		for times[to].Sub(times[from]) > period {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}
