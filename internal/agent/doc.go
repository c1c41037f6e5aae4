// Package agent is the node agent: it finds out which CPUs of its node are isolated, keeps containers on theirs, and reports
// this to the scheduler.
//
//	        ┌──────────────────────────── every 30 s, and published if it changed ───────────────────────────┐
//	        ▼                                                                                                │
//	      look ──────────► connect ──────────► synchronize ──────────► publish ──────────► renew ──► check ──┘
//	sysfs, kubelet's       NRI's socket        the runtime tells       annotation of       Lease,    cgroups
//	policy and mode           ▲                of all that runs        the node            10 s      and moves
//	                          │                                          │
//	                          └─────────── the connection is lost ◄──────┘
//
// The order matters. Nothing is offered before it is enforced: the annotation and the Lease say that containers get what
// schedulers assign, and are written only while the runtime is connected and synchronized; CPUs that become isolated later,
// only once the runtime was asked to move other containers off them. When the connection is lost the Lease is not renewed,
// and after its 40 s schedulers offer nothing. A node with a problem, such as a kubelet that assigns CPUs itself, has the
// problem in its annotation and no renewed Lease.
//
// The layers that fail closed: the plugin answers with an error; the runtime fails what the plugin does not answer
// (FailurePolicy); the runtime's validator refuses pods that require a plugin which is not there; and schedulers check the
// Lease.
//
// State is the state machine, without I/O; Agent drives it. The packages below do one thing each: sysfs and kubelet read,
// enforce decides, hooks talks to the runtime, publish to the API server.
package agent
