// Package inprocess measures what deciding costs, without a cluster: a real live state filled by events, kube-scheduler's
// own plugins over it, the built-in profile, and cycles as the scheduler's loop runs them, but for sending anything out.
// What is measured is a cycle: bring the snapshot up to date, run a session on it, assume what it decides.
//
// It measures no API server and no loop; lab/bench/speed does. It judges no decision; stories and lab/audit do.
package inprocess
