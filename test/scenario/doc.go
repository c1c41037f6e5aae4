// Package scenario plays test stories: a cluster written in short lines, cycles over it, and what was decided, recorded.
// It is imported by tests only. It drives the real live state, engine, actions and plugins, and kube-scheduler's own
// filters, but no API server, no commits and no loop; those have tests of their own.
//
// A story file is read by cockroachdb/datadriven: a command, its lines, "----", and the recorded answer. Run with
// -rewrite to record again, and then read what was recorded. One file tells of one theme, each story in it of one case:
//
//	story a gang of three on capacity for two holds nothing
//	node n1 cpu=2
//	group mpi min=3
//	pods mpi-{0..2} group=mpi cpu=1
//	----
//
//	cycle
//	----
//	wait: mpi InsufficientResources: needs 3, 2 would fit; 1 node lacks cpu; 1 member short of 1 cpu; closest: node n1, missing
//	1 cpu
//	idle: n1 cpu=2
//
// A story begins an empty cluster and ends with one more cycle, played without being asked for, in which nothing may be
// decided and, if the cycle before decided nothing either and nothing happened since, no pod may wait for another reason.
// After each cycle the player checks on its own account that no decision is below a gang's minimum, no pod is bound twice, no
// node gets more than it has, and each waiting pod has a reason. Victims are of lower priority than the job for which they are
// evicted. They are evicted with all their gang or without harm to it, as their budgets allow, and never for a job that was
// evicted for them before.
//
// The commands, with the lines or words they take:
//
//	story TITLE       a new story; lines as cluster
//	skip REASON       the story, in which this comes first, is not played: it says what is still to come, and the run lists it
//	config            the scheduler's configuration, YAML; only before the first cycle of a story, or after a restart
//	extender          what the story's extender does from now on (below); a configuration says EXTENDER for where it is
//	cluster           lines that add or change objects: node, group, pod, class, namespace, queue (below)
//	page              the Queues and Namespaces that a page shows: its file, a colon, and the heading above them
//	object            any other Kubernetes objects, YAML; only before the first cycle, except those of devices
//	ask               what would happen, as the endpoint is asked: changes, and for how long; it changes nothing
//	cycle             one cycle; what it binds is confirmed before the next command
//	cycle unconfirmed the same, but the watch says nothing about the binds until "confirm"
//	confirm           the watch sees all binds in flight, and what the status of groups says: whether they were
//	                  whole, since when they wait, what is reserved for them; and when a job of a queue last started
//	reject POD...     the binds of these pods have failed; with [hold=30s] their jobs are left alone for so long
//	run [POD...]      pods, or all that are bound, begin to run
//	ready POD..., unready POD...   pods that run are ready, or no longer ready
//	finish POD...     pods succeed
//	fail POD...       pods fail
//	terminate POD...  pods are being deleted, from now on, with [grace=30s]
//	spare POD...      pods that the API server has lately refused to evict
//	leave [POD...]    pods, or all that are being deleted, are gone
//	deallocate        kube-controller-manager takes devices back from claims whose pods are gone, and deletes those made for a pod
//	take NODE...      another scheduler allocates all free devices of nodes, which is seen with what the next cycle binds; only
//	                  kube-scheduler's allocator knows it before
//	ungate POD...     scheduling gates are taken away
//	delete KIND NAME...
//	read SOURCE yes   the objects of a foreign source can be read from now on; notyet, absent, forbidden: they cannot
//	cordon NODE..., uncordon NODE...
//	advance DURATION  time passes
//	restart           another scheduler takes over, which knows nothing but the objects
//	guarantees        which guarantees the last cycle has left unmet, and why
//	explain           who answers which question
//
// The extender, whose verbs are filter, prioritize and preempt, takes all nodes, gives all the same score and agrees to all
// victims but where a line says otherwise. What it is asked about victims is written "ask about victims: POD; on NODE
// VICTIM ...; on NODE ...".
//
//	filter n1 busy        n1 does not do for now, and why; never n1 old   nor ever
//	prioritize n1 7       it gives n1 7 points
//	preempt n1 a-0 b-0    it agrees to these victims on n1 alone; preempt n1   to none
//	fail preempt          it fails when asked so
//
// A pod that is made running began to run when it was made, and is ready unless it says unready. What a cycle reserves is written
// "reserve: for JOB MEMBERS on NODE, ...; since TIME, expected start TIME, gave way TIME", and "reserve: nothing for JOB" when it
// ends.
//
// Lines of objects are a kind, a name and words key=value. A name may be NAMESPACE/NAME, and may hold one range {0..3}.
// A line about an object that exists changes it; what the line does not say falls back to nothing, except identity, node,
// phase and deletion.
//
//	node n1 cpu=8 memory=32Gi nvidia.com/gpu=8 pods=10 labels=rack=a,zone=b taints=gpu=true:NoSchedule unschedulable
//	node n2 allocatable=none
//	group mpi min=3 roles=launcher:1,worker:2 class=high queue=q age=10m expected=60s
//	group a min=8 topology=block,rack:4,rack@launcher+worker,rack~!600   slices of 4 in a rack; a rack is waited for 600 s
//	pod mpi-0 group=mpi role=worker cpu=2 memory=1Gi priority=10 class=high age=10m scheduler=other node=n1 phase=Running
//	pod p gates=a.b/c labels=app=x selector=rack=a prefer=rack=a tolerate=gpu=true:NoSchedule tolerate=* ports=8080
//	pod p affinity=app=x@rack anti=app=x@kubernetes.io/hostname near=app=x@rack apart=app=x@rack spread=app=x@rack:1
//	pod p claim=data annotations=a/b=c image=cuda deadline=60s grace=1h
//	pod p init.cpu=2 sidecar.cpu=1 overhead.cpu=1 pod.cpu=4
//	class high value=1000 preemption=Never
//	budget web allowed=1 selector=app=web unready=AlwaysAllow healthy=3/2 behind=1   3 of 2 pods are healthy, the status is old
//	queue team-a parent=research weight=3 limit=cpu:4,nvidia.com/gpu:8 guarantee=cpu:2 selector=team=a paused
//
// Pods that a cycle evicts are seen to be deleted, and so are nominations, when its binds are confirmed. The grace of a pod that
// does not say is 30 seconds; that of another is written, as the eviction has it: "evict: POD for JOB within 5m0s". Groups and
// pods may say preemption=Never, too, and pods nominated=NODE, which is the node that is nominated to them.
//
// Pods that name a group and say min=3 need no group line; an implicit group is written NAME, or NAME/UID with that of its
// controller:
//
//	pod w-{0..2} group=w min=3 owner=Job/u1 topology=rack,block~   as that of a group, in an annotation
//
// Groups of other projects, whose objects cannot be read before "read coscheduling yes"; such a group is written NAME/KIND:
//
//	coscheduling train min=3 resources.cpu=8
//	pod train-{0..2} coscheduling=train
//	volcano train min=3 tasks=ps:1,worker:2 queue=q class=high resources.cpu=8 topology=hard
//	pod train-{0..2} volcano=train task=worker
//	kubernetes train min=3 class=high preemption=Never
//	kubernetes web basic topology=rack                              labels of which the nodes of all members have one value
//	pod train-{0..2} kubernetes=train
//
// JobSets, with the pods of each of their jobs; one that is later depends on the one before it, and may say what each of its pods
// requests:
//
//	jobset train prepare=1 work=3:later,cpu=2
//	pod work-{0..2} jobset=train/work
//
// and those that pods alone describe: of Kueue, and of a LeaderWorkerSet, whose group is written SET/INDEX:
//
//	pod train-{0..2} kueue=train total=3 serving
//	pod serve-0 leader=serve/0 size=3 revision=r1 exclusive=rack
//	pod serve-0-{1..2} worker=serve/0 size=3 revision=r1
//	leaderworkerset serve startup=LeaderReady
//
// A queue that says selector=* takes jobs of all namespaces. Pods and namespaces name a queue by a label:
//
//	namespace one labels=scheduling.tutti.dev/queue=team-a
//
// Some words say more. Node affinity and spread, in the words of the API:
//
//	require=rack:In:a,b require=cores:Gt:8 require=old:DoesNotExist   one term, all of it; host=n1,n2 goes by nodes' names
//	spread=app=x@rack:1:soft:least=3:affinity=Ignore:taints=Honor     soft is ScheduleAnyway, least is minDomains
//
// The namespaces that affinity (anti, near, apart) looks into, all, by label or by name, and the labels they have:
//
//	affinity=app=x@rack@* affinity=app=x@rack@team=a affinity=app=x@rack@one,two
//	namespace one labels=team=a
//
// Host ports with protocol and address, also of the init container and the sidecar; disks written in the pod, ":ro" for
// reading; claims to devices; features that a kubelet must declare:
//
//	ports=8080,8080/UDP@10.0.0.1 init.ports=80 sidecar.ports=81
//	disk=d disk=d:ro device=gpu feature=UserNamespacesHostNetworkSupport
//	node n1 features=UserNamespacesHostNetworkSupport
//
// Devices: a class has those of the driver of its name, or of a driver and a model; a node has devices of a driver in a pool of
// its own, of which the first ones may be tainted. A claim, or one that is made for the pod as from a template, asks for so many
// of a class, or for the first of several alternatives. A bind writes the claims of the pod; a pod that is made on a node has its
// devices. These stay allocated when the pod is gone, until "deallocate". delete takes the kinds deviceclass, devices, claim and
// rule (a DeviceTaintRule), too:
//
//	deviceclass gpu provides=nvidia.com/gpu
//	deviceclass h100 driver=gpu model=h100
//	devices n1 gpu=4 tainted=1
//	devices n2 gpu.h100=2 gpu=2
//	claim shared asks=gpu:1,nic:1
//	pod p device=shared claims=gpu:2   pod q claims=gpu:2|gpu:1
//
// Isolated CPUs of a node, by NUMA node, with how many threads each core has and whether its CPU counts them; and what a pod
// wants of them, or has. A bind says which it is given, and what is idle which are free:
//
//	node n1 cpu=14 isolated=8-11/12-15 threads=2 mode=excluded problem=words
//	pod p cpu=2 isolcpu=true numa=required smt=one-per-core
//	pod p cpu=2 isolcpu=true node=n1 phase=Running assigned=8-9
//
// The controller of a pod, KIND/UID, and a node that would rather avoid its pods:
//
//	pod p owner=Job/u1
//	node n1 avoids=Job/u1
//
// The files, in reading order:
//
//	run.go, stage.go, ask.go                                      a story is played, and asked what would happen
//	line.go, objects.go, pod.go, place.go, need.go, isolated.go   its lines become objects
//	page.go                                                       and so does what a page shows
//	world.go, devices.go, owner.go, kube.go, extender.go          what is around the scheduler
//	foreign.go                                                    groups of other projects
//	evict.go, reserve.go, implicit.go, queue.go                   evictions, status, groups and queues on the player's own account
//	view.go, check.go, share.go, idle.go                          what is recorded and judged
package scenario
