// Package v1alpha1 is the first version of Tutti's API group, scheduling.tutti.dev: the PodGroup, the Queue, and the labels
// and annotations by which pods say which group, role and queue they belong to.
//
// It holds types, markers and names that are part of the API, and nothing that decides: who is a member, what phase a
// group is in and why it waits is worked out elsewhere. The rules that objects must keep are CEL rules on the types
// (there is no webhook), so the API server enforces them and says what is wrong.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.tutti.dev
package v1alpha1
