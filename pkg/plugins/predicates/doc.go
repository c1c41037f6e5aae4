// Package predicates rules out the nodes that kube-scheduler would rule out. It calls kube-scheduler's own filters for names,
// cordons, taints, node affinity, ports, volumes, device claims and declared features, and a topology.Index, with the same
// messages, for spread and inter-pod affinity.
//
// It ignores resources: the engine compares requests, also for devices of claims and DeviceClasses, which are counted by node.
// Where a number does not say whether a node has the devices, DynamicResources is asked. A pod without special requirements costs
// no call into kube-scheduler once its shape is known. An error of a filter keeps the task off the nodes it happened for, and
// nothing else.
//
// No argument changes it: kube-scheduler's filters are not configurable. The volumes and devices of a placed task are
// reserved immediately, so that the next task does not get the same. The searches for devices of a cycle have a budget of time.
//
// The files, in reading order:
//
//	predicates.go, arguments.go  the plugin, its arguments, and what it tells of a task
//	filters.go, question.go      the filters, and a question about one task built of them
//	neighbours.go                pods near to, apart from, and spread among other pods
//	classes.go, devices.go       devices of classes: where their number decides, and where the allocator is asked
//	searches.go, reserve.go      the budget of time for searches, and what is set aside on the chosen node
package predicates
