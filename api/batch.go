package api

import (
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// batch opens a batch, with its callback, or seals one.
func (a *submitAPI) batch(c *call, req wire.Batch) {
	if full := a.Full(); full != nil && !req.Seal {
		c.reply(nil, full.Why)
		return
	}
	cmds, err := req.Commands(a.Core.NewID)
	if err == nil && !req.Seal {
		err = c.user.Submit(len(cmds), int64(len(c.data)))
	}
	if err == nil && len(cmds) > 1 {
		err = c.user.Type(cmds[1].(events.Submit).Type) // the callback's
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	c.do(cmds, func(o []dispatcher.Outcome) {
		a := wire.BatchReply{ID: o[0].Decision.ID.String(), Repeat: o[0].Decision.Repeat, Position: wire.PositionOf(o[len(o)-1].Position)}
		a.Batch, _ = wire.BatchOf(o[0].Item)
		if o[0].Item != nil {
			a.State = o[0].Item.State
		}
		if o[0].Err == nil && len(o) > 1 {
			callback := submitted(o[1])
			a.Callback = &callback
		}
		c.reply(a, o[0].Err)
	})
}
