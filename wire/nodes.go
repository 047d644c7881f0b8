package wire

// NodeRole says what a node does for the log.
type NodeRole string

// The roles of nodes.
const (
	RoleOwner   NodeRole = "owner"   // it decides, and appends
	RoleStandby NodeRole = "standby" // it follows the log, and takes over when the owner is gone
)
