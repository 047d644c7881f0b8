// One question of the inbox: what is asked, and the form of the answer. What is typed
// stays until somebody has answered.

import { h, put, show } from '../dom.js';
import { get, hasToken, isAbort, send } from '../api.js';
import { live } from '../live.js';
import { href } from '../router.js';
import { problem, toast } from '../ui.js';
import { keys } from '../keys.js';
import { withTexts } from '../jsontext.js';
import { answerOf, questionOf } from '../question.js';
import { watch } from './approvals.js';

export default {
  name: 'approval', title: 'Approval', within: 'work', match: (path) => path[0] === 'approvals' && path.length === 2,
  mount(el, { route, signal, title }) {
    const view = new ApprovalView(el, route.path[1], signal, title);
    view.load();
  },
};

class ApprovalView {
  constructor(el, id, signal, title) {
    Object.assign(this, { id, signal, title, mine: 0, path: `api/v1/approvals/${encodeURIComponent(id)}`, shown: '' });
    this.name = h('h1', null, 'Approval');
    this.kind = h('span', { class: 'muted' });
    this.gone = h('div');
    this.told = h('div');
    this.parts = h('div', { class: 'question-parts' });
    el.append(h('div', { class: 'screen-head' }, this.name, this.kind, h('div', { class: 'tools' }, h('a', { class: 'button button-plain', href: href(['approvals']) }, 'All approvals'))), this.gone, this.told, this.parts);
    keys('r', 'Refresh', () => this.load(), { signal });
    keys('u', 'Back to the list', () => { location.hash = href(['approvals']); }, { signal });
    watch(() => this.load(), signal, (ev) => ev.id === id);
  }

  async load() {
    try {
      const a = await get(this.path, { signal: this.signal, exact: true });
      put(this.gone);
      show(this.parts, true);
      this.draw(a);
    } catch (err) {
      if (isAbort(err)) return;
      if (this.shown && err.status !== 404) return; // what is shown stays; the connection says that it is old
      this.shown = '';
      put(this.gone, err.status === 404 ? this.missing(err) : problem(err, () => this.load()));
      show(this.parts, false);
    }
  }

  missing(err) {
    return h('div', { class: 'empty panel', role: 'alert' }, h('p', { class: 'empty-title' }, 'Nothing is asked'), h('p', null, err.message), h('p', null, this.item()));
  }

  item() { return h('a', { class: 'mono', href: href(['work', this.id]) }, this.id); }

  // draw shows a question, and leaves it alone while it is the same.
  draw(a) {
    const now = JSON.stringify([a.number, a.since, a.answered, a.may_answer]);
    if (now === this.shown) return;
    this.shown = now;
    this.title(a.title);
    put(this.name, a.title);
    put(this.kind, a.type);
    const answer = answerOf(a, (given, value) => this.answer(a, given, value), { mine: this.mine === a.number, named: !hasToken() });
    put(this.parts, questionOf(a, answer, [['Item', this.item()]]));
  }

  // answer sends an answer. One that comes too late is told of with what is so now.
  async answer(a, answer, value) {
    try {
      await send('POST', this.path, withTexts({ number: a.number, ...answer }, { value }));
      this.mine = a.number;
      put(this.told);
      toast('Your answer was taken.');
    } catch (err) {
      if (err.status !== 409) throw err;
      put(this.told, h('div', { class: 'notice notice-bad', role: 'alert' }, h('strong', null, 'Your answer was not taken: '), err.message));
    }
    await this.load();
  }
}
