package rest

import (
	"net/http"

	"github.com/streamwright/streamwright/wire"
)

// registerBatches adds the operations on batches. A batch is an item: it is shown,
// waited for and cancelled as such.
func (s *Server) registerBatches() {
	register(s, operation{
		id: "open-batch", method: http.MethodPost, path: "/api/v1/batches", tag: tagWork, endpoint: wire.APIBatch,
		summary: "Open a batch", about: "A batch is an item that runs nothing: it waits for the items that are submitted with its id in batch, and completes once their number is settled, by count or by sealing it, and the last of them has ended. " +
			"GET /api/v1/work/{id} shows how far it has come, DELETE cancels what of it has not ended, GET /api/v1/work?batch={id} lists its items. callback is submitted with it, and runs when it has ended. With an id the request may be repeated.",
		body: typeOf[wire.Batch](), bodyOptional: true, omit: []string{"seal"}, reply: typeOf[wire.BatchReply](), refusals: []int{http.StatusConflict, http.StatusTooManyRequests},
	}, func(in *struct{ JSONBody }) (any, error) {
		return withFields(in.RawBody)
	})
	type sealing struct {
		Count int `json:"count,omitempty" doc:"How many items it has in all; left out, as many as there are."`
	}
	register(s, operation{
		id: "seal-batch", method: http.MethodPost, path: "/api/v1/batches/{id}/seal", tag: tagWork, endpoint: wire.APIBatch,
		summary: "Settle how many items a batch has", about: "It ends with the last of them. Sealing it again with the same count changes nothing.",
		body: typeOf[sealing](), bodyOptional: true, reply: typeOf[wire.BatchReply](), refusals: []int{http.StatusNotFound, http.StatusConflict},
	}, func(in *struct {
		ItemPath
		JSONBody
	}) (any, error) {
		return withFields(in.RawBody, field{"id", in.ID}, field{"seal", true})
	})
}
