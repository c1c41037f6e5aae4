// Package topology counts pods by topology domain, and answers from the counts what inter-pod (anti-)affinity and topology
// spread ask: which nodes they rule out for a pod, and which they prefer.
//
// The meaning is kube-scheduler's, to the word and the point, with its default arguments; its own plugins are the oracle of
// the tests. What differs is the cost: they look at every pod of the cluster for every pod they are asked about, while the
// Index keeps its counts, from task to task and from session to session, and brings them up to date from the snapshot's
// journal. A question costs what has changed since the last one, and an answer about a node is a look into an array.
//
// How it counts: a pod on a node belongs to a class, of which it has those labels that some selector names, and may hold
// terms, what it says about its neighbours. For every question in use there is a table with one number per domain, and
// each class and each set of terms knows the tables it feeds; so a pod that comes or goes changes a few numbers. As long as
// nobody asks about labels, no label is looked at.
//
// It decides nothing, places nothing and knows no session; the plugins predicates and nodeorder ask it.
package topology
