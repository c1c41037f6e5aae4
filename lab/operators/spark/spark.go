// Package spark is what spark-submit and a driver of Apache Spark do in a cluster, as far as pods are concerned: spark-submit
// creates the driver's pod and a ConfigMap with the properties, and the driver creates its executors, as the properties say.
// Spark itself is a program for a Java machine, which no module has; everything that spark-operator does is done by the real one.
package spark

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Properties are those of an application, such as spark.executor.cores.
type Properties map[string]string

// PropertiesFile is the key of the properties in the ConfigMap of the driver.
const PropertiesFile = "spark.properties"

// FromArguments returns the properties among the arguments of spark-submit.
func FromArguments(args []string) Properties {
	properties := Properties{}
	for i, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok && i > 0 && args[i-1] == "--conf" {
			properties[name] = value
		}
	}
	return properties
}

// FromConfigMap returns the properties that a driver was submitted with.
func FromConfigMap(m *corev1.ConfigMap) Properties {
	properties := Properties{}
	lines := bufio.NewScanner(strings.NewReader(m.Data[PropertiesFile]))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			properties[name] = value
		}
	}
	return properties
}

// ConfigMap is what the driver reads its properties from. It goes with the driver's pod.
func (p Properties) ConfigMap(driver *corev1.Pod) *corev1.ConfigMap {
	var lines []string
	for name, value := range p {
		lines = append(lines, name+"="+value+"\n")
	}
	slices.Sort(lines)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: driver.Namespace, Name: ConfigMapName(driver.Name), OwnerReferences: []metav1.OwnerReference{ownedBy(driver)},
		},
		Data: map[string]string{PropertiesFile: strings.Join(lines, "")},
	}
}

// ConfigMapName is the name of the ConfigMap of a driver.
func ConfigMapName(driver string) string { return driver + "-conf-map" }

// Driver is the driver's pod of a new application: what its template says, with what the properties say.
func (p Properties) Driver(application types.UID) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	text, err := os.ReadFile(p["spark.kubernetes.driver.podTemplateFile"])
	if err != nil {
		return nil, fmt.Errorf("template of the driver: %w", err)
	}
	if err := yaml.Unmarshal(text, pod); err != nil {
		return nil, fmt.Errorf("template of the driver: %w", err)
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("the template of the driver has no container")
	}
	pod.Namespace, pod.Name = p["spark.kubernetes.namespace"], p["spark.kubernetes.driver.pod.name"]
	p.mark(pod, "driver", "spark-"+string(application))
	return pod, p.fill(pod, "driver")
}

// Executor is the pod of an executor of a driver.
func (p Properties) Executor(driver *corev1.Pod, id int) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: driver.Namespace, Name: fmt.Sprintf("%s-exec-%d", strings.TrimSuffix(driver.Name, "-driver"), id),
			OwnerReferences: []metav1.OwnerReference{ownedBy(driver)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "spark-kubernetes-executor"}}},
	}
	p.mark(pod, "executor", driver.Labels["spark-app-selector"])
	pod.Labels["spark-exec-id"] = fmt.Sprint(id)
	return pod, p.fill(pod, "executor")
}

// mark gives a pod the labels of its role, and the labels and annotations of the properties.
func (p Properties) mark(pod *corev1.Pod, role, application string) {
	pod.Labels = map[string]string{"spark-role": role, "spark-app-selector": application}
	pod.Annotations = map[string]string{}
	for name, value := range p {
		if label, ok := strings.CutPrefix(name, "spark.kubernetes."+role+".label."); ok {
			pod.Labels[label] = value
		}
		if annotation, ok := strings.CutPrefix(name, "spark.kubernetes."+role+".annotation."); ok {
			pod.Annotations[annotation] = value
		}
	}
}

// fill gives a pod what its role has in the properties: image, cores, and a gigabyte with the overhead that Spark adds.
func (p Properties) fill(pod *corev1.Pod, role string) error {
	cores := cmp.Or(p["spark.kubernetes."+role+".request.cores"], p["spark."+role+".cores"], "1")
	cpu, err := resource.ParseQuantity(cores)
	if err != nil {
		return fmt.Errorf("cores of the %s: %w", role, err)
	}
	container := &pod.Spec.Containers[0]
	container.Image = p["spark.kubernetes.container.image"]
	container.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: cpu, corev1.ResourceMemory: resource.MustParse("1408Mi"),
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.SchedulerName = p["spark.kubernetes."+role+".scheduler.name"]
	return nil
}

// ownedBy is a reference to a pod as the controller.
func ownedBy(pod *corev1.Pod) metav1.OwnerReference {
	return *metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
}
