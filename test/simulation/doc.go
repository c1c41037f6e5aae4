// Package simulation plays the real scheduler, with its state, its commit machine and its loop as the program puts them
// together, against a model of everything around it, and holds it to the invariants of the design after every step. It is for
// tests and for soaking; nothing that runs in a cluster imports it.
//
// # One queue
//
// Everything that happens is an event of one queue: a change that a watch delivers, a step of a loop, a request that leaves,
// arrives or is answered, a pod that a kubelet starts, a user's edit, a crash. Events happen one after the other, in the
// order of their virtual time; nothing has a goroutine, a timer or a clock of its own, and whatever is by chance comes from
// dice that depend on the seed alone. So the same Config leads to the same simulation, byte for byte, and a seed that fails
// is a test. (Only kube-scheduler's filters are made once for all simulations. They read pods and nodes through a lister that
// shows those of the process that is at work.)
//
//		plan, kubelets,                             ┌──────────── process ────────────┐
//		controllers     ──► server ──► stream ────► │ Mailbox ► Scheduler ► Machine   │
//		                      ▲    (list, watch)    │            State                │
//		                      │                     └───────────────────────┬─────────┘
//		                      └───────── travel (lost, late, refused) ◄─────┘ Send
//
//	  - server stores objects by version and answers binds, evictions, patches and events in the real one's words: preconditions,
//	    gates, pods that leave, budgets.
//	  - stream is an informer: a list, then a watch that delivers late, twice, and out of order where objects differ; that breaks
//	    and goes on, or lists again, with what was in between left out; and whose first list may be an old one.
//	  - travel is the network: requests and answers that are lost or take long, and 401, 409, 429, 500 and 503 for no good reason.
//	    A request that has left arrives, whatever becomes of the process.
//	  - process is one life of a replica. It ends by a crash, after a certain write, or with its Lease, and another life begins.
//	    It may stand still for a while, and its clock may be ahead or behind.
//	  - world is kubelets, controllers and the disruption controller; plan is what users, nodes and chance do; tree is what
//	    administrators do to Queues, foreign what operators of other projects write, late jobs of which they make a part later,
//	    runs jobs of which all pods are made again once they have succeeded and are kept, levels the labels by which nodes are in
//	    racks and blocks, where Config asks for them.
//
// # How it goes
//
// Run plays a plan of steps, drawn from the seed or given, under faults. Then all faults end, all goes on until nothing has
// changed for a minute, and what is left is judged.
//
// # Who judges
//
// judge never asks the scheduler's accounting. What is decided is judged by what the process had received: I1, I3, I4, I11,
// I12, I14, I15 and I26 by package invariants; I10, I13 and I30 here (victims.go, loop.go). What came of it is judged by the
// server's objects: I3 (capacity.go) and I5. In between: I6, I24 (binds.go), and I9 by verify mode, whose panics are violations,
// as any panic is one of I25 and a loop without end is of I27. At rest (rest.go): I2, I7, I8, I16, I22, I23 and I29: each waiting
// pod has a reason, no call is in flight, what the process holds is what a new one would read, no pod waits for which there is
// capacity, and nothing more is written.
//
// With Queues: Q5, Q14 and Q15 of what is decided, by package invariants; Q5 again by the server's objects (quota.go), Q8 after
// each session (rights.go), Q11 and Q22 (victims.go), Q16 whenever the loop goes to sleep and at rest (unmet.go); at rest Q12 and
// Q21. I16 is Q6 then, no job waits within its limits for which there is capacity, and I29 is Q10, evictions come to an end. Q23
// is of all that is written, with and without Queues (readers.go). For Q8 and Q16 one thing is asked of the scheduler: how much
// the jobs of each queue ask for that could start in an empty cluster.
//
// With levels: of what is decided T1, members that must share a domain are placed, nominated and reserved for in one, with
// those that stand there; T2, pods are evicted there alone; T8, no job is placed that names a level which is not known, all
// three by package invariants; T5, the members of a start follow each other by index; T11, what is written with a bind is where
// the node is (topology.go). T6 and T9 when a session ends (tables.go): what is kept of how many pods fit on each node and into
// each domain is what counting again gives, also after a start that is undone. T3 is that the same seed leads to the same
// trace, a test of its own. T7 is Q11 of a job that only prefers a domain. I16 and I18 are T4 then (rooms.go), no job waits for
// which a domain has capacity, where one shape decides; and at rest no message of a group says otherwise. That levels which are
// only declared change nothing, T10, is a test of its own.
//
// What another one did to a node that the process had not received when it decided is no violation of I3: it cannot
// know that. The same for what a request does that arrives after its client has given up.
//
// With devices: all that is said of capacity is of devices, too, since the judge counts them by slices, claims and pods for each
// node (charges.go). D1, D2, D4 and D5 are of what came of it and of what is evicted (held.go), D3 of what is idle after each
// step. The allocator and the preparer of a process are the simulation's own, as simple as can be (allocator.go):
// kube-scheduler's hear of claims on goroutines of their own.
//
// # When it fails
//
// A failing simulation names its seed, which replays it; Shrink leaves out steps and faults as long as the same invariant
// stays broken. FaultInjection plants bugs, and a test sees each of them caught.
//
// The files, in reading order:
//
//	simulation.go, plan.go, shrink.go                                        a run, its steps, the shortest that fails
//	queue.go, random.go                                                      events by time, chance by seed
//	world.go, tree.go, foreign.go, late.go, runs.go, levels.go, devices.go,
//	faults.go                                                                users, nodes, kubelets, queues; what goes wrong
//	server.go, serve.go, stream.go, travel.go                                the API server and the network
//	process.go, sight.go, lease.go, filters.go, allocator.go, alarm.go       one life of a replica
//	judge.go, binds.go, gangs.go, parts.go, capacity.go, victims.go, loop.go, waits.go,
//	quota.go, rights.go, unmet.go, readers.go, topology.go, rooms.go,
//	charges.go, held.go, tables.go, rest.go                                  the invariants
package simulation
