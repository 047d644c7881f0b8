package api

import (
	"context"
	"slices"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of a tree.
const (
	MaxTreeDepth     = 100
	DefaultTreeDepth = 10
	MaxTreeNodes     = 10_000
	DefaultTreeNodes = 200
	// maxPath bounds the items above one that are shown.
	maxPath = 100
	// maxTreeText bounds the reasons and messages of one node, in bytes.
	maxTreeText = 200
)

// tree answers with an item, what spawned it, and what it has spawned.
func (a *itemAPI) tree(ctx context.Context, c *call, req wire.Tree) (any, error) {
	id, err := parseID(req.ID)
	if err != nil {
		return nil, err
	}
	if req.Depth < 0 || req.Depth > MaxTreeDepth {
		return nil, events.Refuse(events.CodeBadRequest, "depth is %d: it must be 1 to %d, or left out for %d", req.Depth, MaxTreeDepth, DefaultTreeDepth)
	}
	if req.Limit < 0 || req.Limit > MaxTreeNodes {
		return nil, events.Refuse(events.CodeBadRequest, "limit is %d: it must be 1 to %d, or left out for %d", req.Limit, MaxTreeNodes, DefaultTreeNodes)
	}
	it, err := a.item(ctx, id)
	if err != nil {
		return nil, err
	}
	b := treeBuilder{ctx: ctx, q: a.Queries, left: DefaultTreeNodes, depth: DefaultTreeDepth}
	if req.Limit > 0 {
		b.left = req.Limit
	}
	if req.Depth > 0 {
		b.depth = req.Depth
	}
	return b.build(it)
}

// treeBuilder reads a tree level by level, so that its limit cuts the deepest
// levels first.
type treeBuilder struct {
	ctx   context.Context
	q     Queries
	left  int // nodes that may still be added
	depth int
}

// growing is a node whose children are still to be read.
type growing struct {
	id   events.ID
	node *wire.TreeNode
}

func (b *treeBuilder) build(it *events.Item) (wire.TreeReply, error) {
	reply := wire.TreeReply{Root: treeNode(it)}
	var err error
	if reply.Path, err = b.path(it); err != nil {
		return reply, err
	}
	most := b.left
	level := []growing{{it.ID, &reply.Root}}
	for depth := 0; len(level) > 0; depth++ {
		var next []growing
		for _, g := range level {
			if err := b.ctx.Err(); err != nil {
				return reply, err
			}
			below, err := b.grow(g, depth < b.depth)
			if err != nil {
				return reply, err
			}
			next = append(next, below...)
		}
		level = next
	}
	reply.Nodes = most - b.left
	return reply, nil
}

// grow adds a node's children, or notes that some are left out, and returns the
// children that may have children themselves.
func (b *treeBuilder) grow(g growing, deeper bool) ([]growing, error) {
	room := b.left
	if !deeper {
		room = 0
	}
	ids, err := b.q.Children(g.id, events.ID{}, room+1)
	if err != nil {
		return nil, err
	}
	if len(ids) > room {
		g.node.Truncated, ids = true, ids[:room]
	}
	b.left -= len(ids)
	items := make([]*events.Item, 0, len(ids))
	for _, id := range ids {
		it, err := b.q.Item(id)
		if err != nil {
			return nil, err
		}
		if it == nil {
			continue // pruned meanwhile
		}
		items = append(items, it)
		g.node.Children = append(g.node.Children, treeNode(it))
	}
	var next []growing
	for i, it := range items {
		if it.Relations != nil && it.Relations.Spawns > 0 {
			next = append(next, growing{it.ID, &g.node.Children[i]})
		}
	}
	return next, nil
}

// path returns what is above an item, the topmost first.
func (b *treeBuilder) path(it *events.Item) ([]wire.TreeNode, error) {
	var up []wire.TreeNode
	for it.Relations != nil && !it.Relations.Parent.IsZero() && len(up) < maxPath {
		above, err := b.q.Item(it.Relations.Parent)
		if err != nil {
			return nil, err
		}
		if above == nil {
			break // pruned
		}
		up = append(up, treeNode(above))
		it = above
	}
	slices.Reverse(up)
	return up, nil
}

// treeNode returns a node with its texts clipped, so that a reply stays small.
func treeNode(it *events.Item) wire.TreeNode {
	n := wire.TreeNodeOf(it)
	n.Reason = events.Clip(n.Reason, maxTreeText)
	if n.Progress != nil {
		n.Progress.Message = events.Clip(n.Progress.Message, maxTreeText)
	}
	return n
}
