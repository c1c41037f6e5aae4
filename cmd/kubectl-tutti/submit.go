package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
)

// submitOptions describes a gang for a trial.
type submitOptions struct {
	name, image      string
	members, minimum int32
	cpu, memory      string
	gpus             int64
	gpuResource      string
	priorityClass    string
	schedulerName    string
	command          []string
	dryRun           bool
	requests         corev1.ResourceList
}

func newSubmit(a *clientFlags) *cobra.Command {
	s := &submitOptions{}
	command := &cobra.Command{
		Use:   "submit NAME --members N --image IMAGE [flags] [-- COMMAND ARG...]",
		Short: "Submit a simple gang, to try things out",
		Long: `Makes a PodGroup and a Job of so many pods that start together or not at all. Each pod learns its rank from the environment
variable JOB_COMPLETION_INDEX. The Job belongs to the PodGroup: deleting that deletes both.

With --dry-run it prints what it would make, which is a good beginning for a file of your own.`,
		Example: `  kubectl tutti submit hello --members 4 --image busybox -- sh -c 'echo rank $JOB_COMPLETION_INDEX; sleep 60'
  kubectl tutti submit train --members 8 --min 6 --image my/trainer --cpu 4 --memory 16Gi --gpu 1
  kubectl tutti submit train --members 8 --image my/trainer --dry-run > train.yaml`,
		Args: atLeastOne("a name for the gang"),
		RunE: func(command *cobra.Command, args []string) error {
			if at := command.ArgsLenAtDash(); at > 1 || at < 0 && len(args) > 1 {
				return errors.New("give one name; what the pods are to run comes after --")
			}
			s.name, s.command = args[0], args[1:]
			if err := errors.Join(a.checkOutput(), s.check()); err != nil {
				return err
			}
			return a.submit(command.Context(), a.command(command), s)
		},
	}
	flags := command.Flags()
	flags.Int32Var(&s.members, "members", 0, "how many pods")
	flags.Int32Var(&s.minimum, "min", 0, "how many of them must be able to start together; without it, all")
	flags.StringVar(&s.image, "image", "", "container image")
	flags.StringVar(&s.cpu, "cpu", "", "CPU that each pod requests, such as 500m")
	flags.StringVar(&s.memory, "memory", "", "memory that each pod requests, such as 1Gi")
	flags.Int64Var(&s.gpus, "gpu", 0, "GPUs that each pod requests")
	flags.StringVar(&s.gpuResource, "gpu-resource", "nvidia.com/gpu", "what a GPU is called")
	flags.StringVar(&s.priorityClass, "priority-class", "", "PriorityClass of the pods and of the group")
	flags.StringVar(&s.schedulerName, "scheduler-name", "tutti", "schedulerName of the pods and of the group")
	flags.BoolVar(&s.dryRun, "dry-run", false, "print what would be made, and make nothing")
	return command
}

// check returns all errors in the flags, and reads the requests.
func (s *submitOptions) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if problems := validation.IsDNS1123Label(s.name); len(problems) > 0 {
		wrong("name %q: %s", s.name, strings.Join(problems, "; "))
	}
	if s.members < 1 {
		wrong("--members %d: say how many pods, at least 1", s.members)
	}
	if s.minimum == 0 {
		s.minimum = s.members
	}
	if s.minimum < 0 || s.minimum > s.members {
		wrong("--min %d: must be between 1 and the number of members", s.minimum)
	}
	if s.image == "" {
		wrong("--image: say which image the pods are to run")
	}
	s.requests = corev1.ResourceList{}
	for _, request := range []struct {
		flag, text string
		name       corev1.ResourceName
	}{{"cpu", s.cpu, corev1.ResourceCPU}, {"memory", s.memory, corev1.ResourceMemory}} {
		if request.text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(request.text)
		if err != nil || quantity.Sign() < 0 {
			wrong("--%s %q: is no quantity, such as 500m or 1Gi", request.flag, request.text)
		}
		s.requests[request.name] = quantity
	}
	if s.gpus < 0 {
		wrong("--gpu %d: must not be negative", s.gpus)
	}
	if s.gpus > 0 {
		s.requests[corev1.ResourceName(s.gpuResource)] = *resource.NewQuantity(s.gpus, resource.DecimalSI)
	}
	return errors.Join(errs...)
}

func (s *submitOptions) group(namespace string) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name},
		Spec:       v1alpha1.PodGroupSpec{MinMember: s.minimum, SchedulerName: s.schedulerName, PriorityClassName: s.priorityClass},
	}
}

// job returns the Job of the group. A device plugin's resources need limits equal to the requests.
func (s *submitOptions) job(namespace string) *batchv1.Job {
	limits := corev1.ResourceList{}
	if s.gpus > 0 {
		name := corev1.ResourceName(s.gpuResource)
		limits[name] = s.requests[name]
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name},
		Spec: batchv1.JobSpec{
			Parallelism: new(s.members), Completions: new(s.members), CompletionMode: new(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelPodGroup: s.name}},
				Spec: corev1.PodSpec{
					SchedulerName: s.schedulerName, RestartPolicy: corev1.RestartPolicyNever, PriorityClassName: s.priorityClass,
					Containers: []corev1.Container{{
						Name: "main", Image: s.image, Command: s.command,
						Resources: corev1.ResourceRequirements{Requests: s.requests, Limits: limits},
					}},
				},
			},
		},
	}
}

func (a *clientFlags) submit(ctx context.Context, p *printer.Printer, s *submitOptions) error {
	if s.dryRun {
		return s.print(p, a)
	}
	read, namespace, err := a.reader()
	if err != nil {
		return err
	}
	// The group first: pods whose group does not exist get a condition about it, and wait.
	group, err := read.groups.SchedulingV1alpha1().PodGroups(namespace).Create(ctx, s.group(namespace), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create PodGroup %s/%s: %w", namespace, s.name, err)
	}
	job := s.job(namespace)
	job.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup", Name: group.Name, UID: group.UID,
	}}
	if _, err := read.pods.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		err = fmt.Errorf("create Job %s/%s: %w", namespace, s.name, err)
		gone := read.groups.SchedulingV1alpha1().PodGroups(namespace).Delete(ctx, group.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &group.UID},
		})
		if gone != nil {
			err = errors.Join(err, fmt.Errorf("and the PodGroup, which was created, could not be deleted: %w", gone))
		}
		return err
	}
	p.Printf("%d pods submitted, of which %d start together. See how they do, and end them:\n"+
		"  kubectl tutti why -n %s %s\n  kubectl delete tpg -n %s %s\n", s.members, s.minimum, namespace, s.name, namespace, s.name)
	return nil
}

// print writes both objects as they would be created, without an owner: the group has no UID before it exists.
func (s *submitOptions) print(p *printer.Printer, a *clientFlags) error {
	namespace := a.overrides.Context.Namespace
	var objects []any
	for _, object := range []any{s.group(namespace), s.job(namespace)} {
		text, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		delete(fields, "status") // written by controllers
		objects = append(objects, fields)
	}
	if a.output == outputJSON {
		return p.Encode(printer.JSON, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}
	for _, object := range objects {
		p.Printf("---\n")
		if err := p.Encode(printer.YAML, object); err != nil {
			return err
		}
	}
	return nil
}
