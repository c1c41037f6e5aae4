package gang

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Spec is what the group of a gang states: its object, or the marks of its pods where it has none.
type Spec struct {
	// UID is that of the object where members may be of an earlier attempt, or of a deleted object of the same name; empty where
	// these are not told apart.
	UID types.UID
	// MinMember is how many members must start together, and Roles are the minima of its parts, by name. A role that is made later
	// says so in MadeLater.
	MinMember int32
	Roles     []model.Role
	// Done are the roles of which the object says that all members have succeeded. Left is how many members have still to succeed,
	// zero when it does not say.
	Done []string
	Left int32
	// HasStatus reports that a status says whether the gang was whole, and with what: Whole, and was of Of. Otherwise its members say
	// whether it was, and with what is what was seen of it.
	HasStatus, Whole bool
	// Undecodable reports that not all of it could be decoded. Such a gang is never below its minimum: it might be undone although it
	// was whole.
	Undecodable bool
}
