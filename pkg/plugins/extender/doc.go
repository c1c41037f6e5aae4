// Package extender calls HTTP extenders, the webhooks of kube-scheduler, to filter and score nodes, to review victims, and to
// bind pods. The protocol and its semantics are those of kube-scheduler 1.37.
//
// It is the only plugin that does I/O inside a cycle, and only where it is configured. So that a gang of thousands does not
// cause thousands of calls, an extender is called once per cycle and verb for all pods that are equal to it: same shape, same
// requests and limits, same namespace, same values under the labels that `distinguishBy` names. One of them represents all in
// the call. The answer may depend on anything and is dropped with the session; a job that an extender refuses is tried again
// after a few seconds even if nothing has changed.
//
// The calls of a cycle have a budget of time, which the kinds of pods and their namespaces share; see framework.Budget.
//
// Two differences from kube-scheduler follow. The nodes in a call are those that pass the filters which depend on the node
// object alone, not only those with enough capacity now. And the extender's accounting does not contain the pods that the
// same cycle has placed before.
//
// For preemption an extender is called once for each plan and kind of members, with all the nodes on which members of the
// kind would use the capacity of victims. In kube-scheduler these are alternatives, of which one is chosen; a gang needs all
// of them, and a node that an extender leaves out is planned again. A node that its filter refuses for now passes while pods
// on it are terminating, since the extender reviews the plan; and for some seconds more for the members they were evicted
// for, since its accounting may be stale.
//
// The files, in reading order:
//
//	extender.go, arguments.go, options.go   the plugin, and its configuration
//	answer.go, ahead.go, preempt.go         what extenders answer: about nodes, nodes with terminating pods, and victims
//	remote.go, bind.go                      one extender and the connection to it, and binds
//
// It does not carry out binds (see internal/commit, which calls the PodBinder of this package).
package extender
