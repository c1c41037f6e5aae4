// Package sources finds out which job a pod belongs to and what its group object says about that job; for groups without an
// object, what the pods say. One more operator is one more file here; CONTRIBUTING.md
// lists what else names it. It only reads objects: it holds no state but what pods
// share, and uses neither nodes nor capacity.
//
// The files, in reading order:
//
//	source.go          what a source of groups is, and which there are
//	own.go             PodGroups of ours, and implicit groups
//	coscheduling.go    PodGroups of scheduling.x-k8s.io
//	volcano.go         PodGroups of scheduling.volcano.sh
//	native.go          PodGroups of scheduling.k8s.io, Kubernetes' own
//	lws.go             groups of LeaderWorkerSet, which pods alone describe
//	kueue.go           groups of Kueue, which pods alone describe, and its annotations for topology
//	kai.go             annotations of KAI for topology
//	owned.go           objects that own pods and need no group object
//	jobset.go          JobSets
//	kubeflow.go        MPIJobs, and the jobs of training-operator
//	ray.go             RayClusters
//	job.go             Jobs of Kubernetes whose pods have an index
//	fields.go          how a field of a foreign object is read
//	member.go          what a pod says of its place in its group
//	topology.go        which members share a domain, as annotations say it
//	dialects.go        our annotation for topology, and what is read of those of others in the same way
//	unfollowed.go      annotations of other projects that are not followed
//	queue.go           the queue of a job
//	groups.go          what the object, or the pods, mean for the job
//	later.go           what an object says of members that are made later, and the turn that they have by that
//	runs.go            which members are of the present run, and when a pod has ended
//	template.go        the pods of an object with pod templates
//	whole.go           what a status says of a gang that was whole, and with which minima
//	status.go          what the status of a PodGroup keeps for the scheduler itself
//	removed.go         fields of PodGroups that were removed
package sources
