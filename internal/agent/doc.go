// Package agent is the node agent: it finds out which CPUs of its node are isolated, keeps containers on theirs, and tells the
// scheduler that it does.
//
//	        ┌──────────────────────────── every 30 s, and published if it changed ───────────────────────────┐
//	        ▼                                                                                                │
//	      look ──────────► connect ──────────► synchronize ──────────► publish ──────────► renew ──► check ──┘
//	sysfs, kubelet's       NRI's socket        the runtime tells       annotation of       Lease,    cgroups
//	policy and mode           ▲                of all that runs        the node            10 s      and moves
//	                          │                                          │
//	                          └─────────── the connection is lost ◄──────┘
//
// The order is the point. Nothing is offered before it is enforced: the annotation and the Lease say that containers get what
// schedulers assign, and are written only while the runtime is connected and has been heard; CPUs that come to be isolated later, once
// the runtime was told to move off them what still runs there. When the connection is lost the Lease
// is not renewed, and after its 40 s schedulers offer nothing. A node with a problem, such as a kubelet that gives CPUs out itself,
// says so in its annotation and has no sign of life.
//
// Layers of failing closed: the plugin answers with an error; the runtime fails what the plugin does not answer (FailurePolicy);
// the runtime's validator refuses pods that require a plugin which is not there; and schedulers look at the Lease.
//
// Life is the state machine, without I/O; Agent drives it. The packages below do one thing each: sysfs and kubelet read, enforce
// decides, hooks speak with the runtime, publish with the API server.
package agent
