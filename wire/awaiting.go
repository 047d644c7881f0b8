package wire

// Awaiting is a request that is answered once the queries have reached its MinPosition.
type Awaiting interface{ minPosition() Position }

// MinPosition returns the MinPosition of a request.
func MinPosition(r Awaiting) Position { return r.minPosition() }

func (r Approvals) minPosition() Position      { return r.MinPosition }
func (r CausesQuery) minPosition() Position    { return r.MinPosition }
func (r Get) minPosition() Position            { return r.MinPosition }
func (r GetRejected) minPosition() Position    { return r.MinPosition }
func (r History) minPosition() Position        { return r.MinPosition }
func (r HolderRequest) minPosition() Position  { return r.MinPosition }
func (r List) minPosition() Position           { return r.MinPosition }
func (r ListRejected) minPosition() Position   { return r.MinPosition }
func (r NamespaceGet) minPosition() Position   { return r.MinPosition }
func (r QueuePositions) minPosition() Position { return r.MinPosition }
func (r ShowApproval) minPosition() Position   { return r.MinPosition }
func (r StatsRequest) minPosition() Position   { return r.MinPosition }
func (r Tree) minPosition() Position           { return r.MinPosition }
func (r Wait) minPosition() Position           { return r.MinPosition }
func (r Why) minPosition() Position            { return r.MinPosition }
