package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned/typed/scheduling/v1alpha1"
	scheduling "github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// noteLimit is the API server's limit for an event's note, in bytes.
const noteLimit = 1024

// Reporter is the reporter of events.
type Reporter struct {
	// Controller is the scheduler's name, such as "tutti"; Instance distinguishes its replicas, such as the pod's name.
	Controller, Instance string
}

// Client carries calls to an API server, each as exactly one HTTP request: it never retries by itself. A bind that has a
// binder of its own is a call of that binder instead. It is safe for concurrent use.
type Client struct {
	connection           *http.Client
	core, events, groups rest.Interface
	reporter             Reporter
	binders              atomic.Pointer[[]model.PodBinder]
}

var _ API = (*Client)(nil)

// ClientConfig returns a copy of the configuration for this package's own client: no throttle, since the machine reacts to
// the server's overload replies; protobuf; no compression, which costs more than it saves on small requests.
func ClientConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.RateLimiter = nil
	config.DisableCompression = true
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = rest.DefaultKubernetesUserAgent() + "/commit"
	return config
}

// NewClient returns a client with connections of its own. config should come from ClientConfig; it fails when the
// configuration is invalid, without a request to the server.
func NewClient(config *rest.Config, reporter Reporter) (*Client, error) {
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("commit client: %w", err)
	}
	custom := rest.CopyConfig(config)
	custom.ContentType, custom.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	core, noPods := corev1client.NewForConfigAndClient(config, connection)
	events, noEvents := eventsv1client.NewForConfigAndClient(config, connection)
	groups, noGroups := v1alpha1.NewForConfigAndClient(custom, connection)
	if err := errors.Join(noPods, noEvents, noGroups); err != nil {
		return nil, fmt.Errorf("commit client: %w", err)
	}
	return &Client{
		connection: connection,
		core:       core.RESTClient(), events: events.RESTClient(), groups: groups.RESTClient(),
		reporter: reporter,
	}, nil
}

// Close closes the idle connections. Later requests open new ones.
func (c *Client) Close() { c.connection.CloseIdleConnections() }

// UseBinders replaces the binders that a bind may name; at first there are none. Binds in flight are not affected.
func (c *Client) UseBinders(binders []model.PodBinder) {
	binders = slices.Clone(binders)
	c.binders.Store(&binders)
}

// errBinderRefused is the result of a bind that its binder has refused: the pod is not bound.
var errBinderRefused = errors.New("refused")

// Do implements API.
func (c *Client) Do(ctx context.Context, call Call) error {
	switch {
	case call.Kind == CallGetPod:
		return c.read(ctx, call)
	case call.Kind != CallBind || call.Binder == "":
		return c.send(ctx, call)
	}
	binder := c.binder(call.Binder)
	err := bindWith(ctx, binder, call)
	if err == nil || binder == nil || !binder.Ignorable() {
		return err
	}
	return resolveBinderOutcome(err, c.send(ctx, call))
}

// resolveBinderOutcome combines the API server's answer with that of the bind's binder, which did not confirm it. A binder
// that gave no answer may have bound the pod, and to this very node, so that a refusal by the API server then does not mean
// that the pod is not bound.
func resolveBinderOutcome(binder, server error) error {
	said := classify(CallBind, server).class
	if said == done || said == gone || classify(CallBind, binder).class != unknown {
		return server
	}
	return fmt.Errorf("%w; in its place: %v", binder, server)
}

// binder returns the binder of that name, nil when there is none, such as after a change of the configuration.
func (c *Client) binder(name string) model.PodBinder {
	if binders := c.binders.Load(); binders != nil {
		for _, binder := range *binders {
			if binder.BinderName() == name {
				return binder
			}
		}
	}
	return nil
}

// bindWith calls a binder. Without an explicit refusal the bind may have taken effect.
func bindWith(ctx context.Context, binder model.PodBinder, call Call) error {
	if binder == nil {
		return fmt.Errorf("%s: binder %s is not configured any more: %w", call.Kind, call.Binder, errBinderRefused)
	}
	refusal, err := binder.BindPod(ctx, call.Pod, call.Node)
	switch {
	case err != nil:
		return fmt.Errorf("%s by %s: %w", call.Kind, call.Binder, err)
	case refusal != nil:
		return fmt.Errorf("%s by %s: %w: %s", call.Kind, call.Binder, errBinderRefused, refusal)
	}
	return nil
}

// send carries a call to the API server.
func (c *Client) send(ctx context.Context, call Call) error {
	request, err := c.request(call)
	if err != nil {
		return err
	}
	if err := do(ctx, request).Error(); err != nil {
		return fmt.Errorf("%s: %w", call.Kind, err)
	}
	return nil
}

func do(ctx context.Context, request *rest.Request) rest.Result {
	if deadline, ok := ctx.Deadline(); ok {
		// The server then gives up when we do, so that a request rarely takes effect after its timeout.
		request.Timeout(max(time.Until(deadline).Truncate(time.Millisecond), time.Millisecond))
	}
	// Without this the client would wait for a Retry-After here, on a worker, unknown to the machine.
	return request.MaxRetries(0).Do(ctx)
}

// read reads the node of a pod. Without a resourceVersion the server answers from a quorum of etcd, so that a bind which has
// taken effect is seen.
func (c *Client) read(ctx context.Context, call Call) error {
	pod := &corev1.Pod{}
	err := do(ctx, c.core.Get().Namespace(call.Pod.Namespace).Resource("pods").Name(call.Pod.Name)).Into(pod)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", call.Kind, err)
	case pod.UID != call.Pod.UID:
		return fmt.Errorf("%s: %w", call.Kind, apierrors.NewNotFound(corev1.Resource("pods"), call.Pod.Name))
	case pod.Spec.NodeName == "":
		return ErrNotBound
	case pod.Spec.NodeName != call.Node:
		return fmt.Errorf("%w: %s", ErrElsewhere, pod.Spec.NodeName)
	}
	return nil
}

func (c *Client) request(call Call) (*rest.Request, error) {
	if call.Write != nil {
		return call.Write.request(c)
	}
	switch call.Kind {
	case CallBind:
		return c.bind(call), nil
	case CallNominate:
		return c.nominate(call)
	case CallEvict:
		return c.evict(call), nil
	case CallDeleteStarted, CallDelete:
		return c.delete(call), nil
	default:
		return nil, fmt.Errorf("call of kind %d: unknown", call.Kind)
	}
}

// bind names the UID, so that a later pod of the same name is never bound. Annotations are merged into the pod's in the
// transaction that sets its node.
func (c *Client) bind(call Call) *rest.Request {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: call.Pod.Namespace, Name: call.Pod.Name, UID: call.Pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: call.Node},
	}
	binding.Annotations = call.Annotations()
	if call.Isolated != nil {
		binding.ResourceVersion = call.Isolated.ResourceVersion
	}
	return c.core.Post().Namespace(call.Pod.Namespace).Resource("pods").Name(call.Pod.Name).SubResource("binding").Body(binding)
}

// nominate writes a pod's nominated node to its status, as kube-scheduler does for a preemptor: autoscalers read it.
func (c *Client) nominate(call Call) (*rest.Request, error) {
	var node any // null removes it
	if call.Node != "" {
		node = call.Node
	}
	request, err := c.patchPodStatus(call.Pod, map[string]any{"nominatedNodeName": node})
	if err != nil {
		return nil, err
	}
	return request.Param("fieldManager", model.NominationManager), nil
}

// patchPodStatus merges fields into the status of a pod. With its UID it fails on another pod of the same name.
func (c *Client) patchPodStatus(pod model.PodRef, fields map[string]any) (*rest.Request, error) {
	return withJSON(c.core.Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("status"),
		map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": fields})
}

// withJSON returns the request with a body of JSON.
func withJSON(request *rest.Request, body any) (*rest.Request, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("body of a request: %w", err)
	}
	return request.Body(encoded), nil
}

func (c *Client) evict(call Call) *rest.Request {
	return c.core.Post().Namespace(call.Pod.Namespace).Resource("pods").Name(call.Pod.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: call.Pod.Namespace, Name: call.Pod.Name}, DeleteOptions: deleteOptions(call),
		})
}

// deleteOptions name the UID, so that a later pod of the same name stays, and how long the pod may take to end.
func deleteOptions(call Call) *metav1.DeleteOptions {
	options := metav1.NewPreconditionDeleteOptions(string(call.Pod.UID))
	if call.GraceSeconds > 0 {
		options.GracePeriodSeconds = &call.GraceSeconds
	}
	return options
}

func (c *Client) delete(call Call) *rest.Request {
	return c.core.Delete().Namespace(call.Pod.Namespace).Resource("pods").Name(call.Pod.Name).
		Body(deleteOptions(call))
}

// request leaves what the group owns to the garbage collector.
func (w *GroupDeletion) request(c *Client) (*rest.Request, error) {
	background := metav1.DeletePropagationBackground
	return c.groups.Delete().Namespace(w.Namespace).Resource("podgroups").Name(w.Name).Body(&metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion},
		PropagationPolicy: &background,
	}), nil
}

func (w *PodCondition) request(c *Client) (*rest.Request, error) {
	return c.patchPodStatus(w.Pod, map[string]any{"conditions": []corev1.PodCondition{w.Condition}}) // merged by type
}

func (w *Event) request(c *Client) (*rest.Request, error) {
	namespace := w.Regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where events about objects without a namespace are stored
	}
	return c.events.Post().Namespace(namespace).Resource("events").Body(&eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: eventName(w), Annotations: cycleAnnotation(w.Cycle)},
		EventTime:           metav1.NewMicroTime(w.At),
		ReportingController: c.reporter.Controller,
		ReportingInstance:   c.reporter.Instance,
		Regarding:           w.Regarding,
		Related:             w.Related,
		Type:                w.Type,
		Reason:              w.Reason,
		Action:              w.Action,
		Note:                model.Clean(w.Note, noteLimit),
	}), nil
}

// cycleAnnotation has the number of a cycle. Tools that combine events compare what happened to what, and not annotations.
func cycleAnnotation(cycle uint64) map[string]string {
	if cycle == 0 {
		return nil
	}
	return map[string]string{scheduling.AnnotationCycle: strconv.FormatUint(cycle, 10)}
}

// eventName gives every attempt of an event the same name, so that a retry after a lost reply is recognized.
func eventName(event *Event) string {
	hash := fnv.New64a()
	for _, part := range []string{string(event.Regarding.UID), event.Reason, event.At.UTC().Format(time.RFC3339Nano)} {
		hash.Write([]byte(part)) // never fails
	}
	// A name has at most 253 bytes; the prefix must not end in a dot or dash.
	name := event.Regarding.Name
	name = strings.ToValidUTF8(name[:min(len(name), 253-17)], "")
	return fmt.Sprintf("%s.%016x", strings.TrimRight(name, ".-"), hash.Sum64())
}
