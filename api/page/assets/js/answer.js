// The page of a link, #/answer/TOKEN: one question, for whoever has the link. It has no
// navigation, no live feed and no login. Nothing but a press of a button decides: mail
// programs that open links to look at them answer nothing.

import { h, put } from './dom.js';
import { get, send } from './api.js';
import { startClock } from './format.js';
import { parse, setTitle } from './router.js';
import { button } from './ui.js';
import { toastRegion } from './toasts.js';
import { withTexts } from './jsontext.js';
import { answerOf, questionOf } from './question.js';

const NAME = 'A question for you';

// tokenOf returns the token of an address's hash; undefined: it is of no link.
export function tokenOf(hash) {
  const [screen, ...token] = parse(hash).path;
  return screen === 'answer' ? token.join('/') : undefined;
}

// startAnswer shows the question of a link.
export function startAnswer(token) {
  const page = new AnswerPage(token);
  document.body.classList.add('answer-page');
  document.body.append(h('main', { id: 'main' }, page.name, page.told, page.parts), toastRegion());
  startClock();
  page.load();
}

class AnswerPage {
  constructor(token) {
    this.path = `api/v1/tokens/${encodeURIComponent(token)}`;
    this.name = h('h1', null, NAME);
    this.told = h('div');
    this.parts = h('div');
  }

  // load shows the question as it is now, and returns it.
  async load() {
    put(this.parts, h('p', { class: 'muted' }, 'Loading …'));
    try {
      const a = await get(this.path, { exact: true, plain: true });
      this.draw(a);
      return a;
    } catch (err) {
      put(this.parts, this.refused(err));
      return null;
    }
  }

  draw(a) {
    setTitle(a.title);
    put(this.name, a.title || NAME); // of one that was answered long ago only the answer is known
    put(this.parts, questionOf(a, answerOf(a, (answer, value) => this.answer(answer, value), { mine: isOf(a) })));
  }

  // answer sends an answer. If it comes too late, what is so now is shown: it may be this
  // very answer, whose receipt was lost.
  async answer(answer, value) {
    let late = '';
    try {
      await send('POST', this.path, `{"result":${withTexts(answer, { value })}}`);
    } catch (err) {
      if (err.status !== 409 && err.status !== 404) throw err;
      late = err.message;
    }
    put(this.told);
    const a = await this.load();
    if (late && !isOf(a)) put(this.told, h('div', { class: 'notice notice-bad', role: 'alert' }, h('strong', null, 'Your answer was not taken: '), late));
    if (!late && !a) put(this.told, h('div', { class: 'notice', role: 'status' }, 'Your answer was taken.'));
  }

  // refused says why no question is shown, and what to do.
  refused(err) {
    const [title, text = err.message] = REFUSED[err.status] ?? ['The question could not be loaded'];
    return h('div', { class: 'empty panel', role: 'alert' }, h('p', { class: 'empty-title' }, title), h('p', null, text), err.status !== 404 && h('p', null, button('Try again', () => this.load(), { kind: 'primary' })));
  }
}

// isOf reports whether the answer is of the one whom the link is for.
const isOf = (a) => Boolean(a?.answered && a.for && a.answered.by === a.for);

const REFUSED = {
  0: ['The engine does not answer', 'It may be restarting. Try again in a moment.'],
  404: ['This link leads to no question', 'Check that the link is whole. A link ends some time after its question has been answered.'],
  409: ['The question is not open'],
  429: ['Too many requests', 'Wait a moment, then try again.'],
};
