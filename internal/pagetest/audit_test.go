package pagetest

import "testing"

func TestThePageSaysWhoDidWhat(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.submit(itemOf("audited"))
	p := open(t, desktop, w.url+"#/audit")
	p.see(".empty", "Nothing was done")
	if _, _, err := w.client.Cancel(w.ctx, id, "not needed"); err != nil {
		t.Fatal(err)
	}
	p.press("r")
	for _, text := range []string{"anyone", "cancelled", "audited", id, "not needed"} {
		p.see("table tbody", text)
	}
	p.see(".screen-head", "the log begins at")
	p.set("input[placeholder='a name']", "somebody")
	p.until("document.querySelector('.empty') !== null && location.hash.includes('by=somebody')")
}
