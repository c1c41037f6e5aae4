// Package cluster starts a throw-away Kubernetes control plane on this machine, from programs that lab/binaries built,
// and surely ends it: a real etcd and kube-apiserver with RBAC on, and as asked for a kube-controller-manager, a
// kube-scheduler for the pods that are not Tutti's, and kwok, which plays the kubelet of every node.
//
// Nodes are made by CreateNodes. On these there is no container runtime, no network and no DNS: a pod "runs" because kwok says
// so. With RealNodes there are others beside them, which run containers. The scheduler under test is lab/harness's business.
//
// # What kwok does with a pod
//
// A bound pod runs immediately and, if a batch Job owns it, succeeds after a second. The annotations RunFor, FailAfter,
// StartAfter and StopAfter change that, pod by pod.
//
// The files, in reading order:
//
//	cluster.go, parts.go, machines.go   a cluster, its control plane, its real nodes
//	nodes.go, access.go, tools.go       nodes that kwok plays, kubeconfigs, CRDs and command-line tools
//	fault.go                            parts that end and come back
//	port.go, scratch.go                 what several programs on this machine share
package cluster
