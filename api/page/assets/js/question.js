// A question to people: what is asked, and the form of the answer. The inbox shows it,
// and the page of a link.

import { attr, h, put, show, text } from './dom.js';
import { ago } from './format.js';
import { button, facts, field, json, panel } from './ui.js';
import { markdown } from './markdown.js';
import { jsonForm, said, schemaForm } from './schemaform.js';

const MAX_COMMENT = 4096; // bytes, as the engine has it
const MAX_FACTS = 60;

// CHOICES are what each answer is called.
const CHOICES = { approve: 'Approve', edit: 'Approve with changes', reject: 'Reject', answer: 'Answer' };
const KINDS = { approve: 'primary', reject: 'danger' };
const ENDS = { continue: 'the item goes on without an answer', fail: 'the item fails', complete: 'the item completes' };

// questionOf shows what is asked, then the answer's part of it; more are further facts.
export function questionOf(a, answer, more = []) {
  return h('div', { class: 'question' },
    a.nodes?.length > 0 && panel('Question', { name: 'question' }, h('div', { class: 'panel-body' }, markdown(a.nodes))),
    a.proposal !== undefined && panel('Proposal', { name: 'proposal' }, h('div', { class: 'panel-body' }, proposalOf(a))),
    answer,
    panel('Facts', {}, h('div', { class: 'panel-body' }, facts([
      ['Asked', a.since && ago(a.since)], ['Answer by', a.until && [ago(a.until), a.then && `; else ${ENDS[a.then]}`]], ['Submitted by', a.submitted_by], ['Tenant', a.tenant],
      ['Who may answer', a.for ? `${a.for}, by this link` : whoOf(a.who)], ['Reminders sent', a.reminded], ...more]))),
    a.params !== undefined && panel('Params', { name: 'params' }, h('div', { class: 'panel-body' }, json(a.params, { label: 'params' }))));
}

// proposalOf is a list if the proposal is an object, named as the form does.
function proposalOf(a) {
  const p = a.proposal;
  const list = typeof p === 'object' && p !== null && !Array.isArray(p) && !JSON.isRawJSON?.(p) ? Object.entries(p) : [];
  if (list.length === 0 || list.length > MAX_FACTS) return json(p, { label: 'proposal' });
  const deep = (v) => typeof v === 'object' && v !== null && !JSON.isRawJSON?.(v);
  return facts(list.map(([name, v]) => [a.form?.properties?.[name]?.title ?? name, deep(v) ? h('code', null, said(v)) : said(v) || '–']));
}

function whoOf(who) {
  if (!who) return 'everybody with the role approve or operate';
  const named = [...who.users ?? [], ...(who.roles ?? []).map((r) => `the role ${r}`)].join(', ');
  return [named || 'everybody with the role approve or operate', who.not_submitter && 'not the one who submitted it'].filter(Boolean).join('; ');
}

// answerOf is the answer's part of a question: what was answered, why nothing can be, or the
// form. mine says that an answer is of whoever looks. send and named are as of AnswerForm.
export function answerOf(a, send, { mine = false, named = false } = {}) {
  if (a.answered) return answered(a.answered, mine);
  if (!a.since) return h('div', { class: 'notice' }, h('strong', null, 'The question is over: '), 'nobody has answered it.');
  const barred = !a.may_answer && h('div', { class: 'notice' }, h('strong', null, 'You may not answer this: '), a.why_not);
  return [barred, (a.may_answer || named) && new AnswerForm(a, send, named).el]; // a name may help
}

function answered({ choice, by, at }, mine) {
  return h('div', { class: 'notice answered', role: 'status' }, h('strong', null, mine ? `Your answer: ${nameOf(choice)}` : `${by || 'Somebody'} has answered: ${nameOf(choice)}`), ', ', ago(at), '.');
}

const nameOf = (choice) => (CHOICES[choice] ?? choice).toLowerCase();

// AnswerForm asks for an answer. send({choice, comment, by}, value) sends it, with value as
// JSON or undefined; what it throws is shown, and what was typed stays. named says that
// whoever answers may give a name.
class AnswerForm {
  constructor(a, send, named) {
    Object.assign(this, { a, send, edits: a.choices.includes('edit') });
    this.fills = !this.edits && a.form !== undefined && a.choices.includes('approve'); // what is approved is what the form says
    this.comment = h('textarea', { name: 'comment', class: 'prose', rows: 3, maxlength: MAX_COMMENT });
    this.commentField = field(!a.choices.includes('answer') ? 'Comment (optional)' : a.choices.length > 1 ? 'Answer or comment' : 'Your answer', this.comment);
    this.by = h('input', { name: 'by', autocomplete: 'name', maxlength: 256 });
    this.error = h('p', { class: 'field-error', role: 'alert', hidden: true });
    this.buttons = Object.fromEntries(a.choices.map((c) => [c, button(CHOICES[c] ?? c, () => this.answer(c), { kind: KINDS[c] })]));
    this.value = h('div');
    this.changed = h('p', { class: 'hint', role: 'status', hidden: true }, 'You have changed the proposal. ', button('Undo', () => this.begin(), { kind: 'quiet' }));
    this.folded = this.edits && h('details', { class: 'options' }, h('summary', null, 'Change the proposal'), this.value, this.changed);
    this.el = h('form', { class: 'panel answer-form', 'aria-label': 'Your answer', novalidate: true, onsubmit: (ev) => ev.preventDefault(), oninput: () => this.follow() },
      h('div', { class: 'panel-body' }, this.folded || (this.fills && this.value), this.commentField,
        named && field('Your name (optional)', this.by, { hint: 'Counts where nobody signs in.' }), this.error, h('div', { class: 'answer-buttons' }, Object.values(this.buttons))));
    this.begin();
  }

  // begin fills in the first value.
  begin() {
    const { form, proposal } = this.a;
    if (!this.edits && !this.fills) return;
    this.fields = form ? schemaForm(form, proposal, this.edits) : jsonForm(proposal);
    put(this.value, this.fields.el);
    this.follow();
  }

  // follow turns Approve off while the proposal is changed: it would take it as it was.
  follow() {
    const changed = this.edits && this.fields.changed();
    show(this.changed, changed);
    if (this.buttons.approve) attr(this.buttons.approve, 'disabled', changed);
  }

  async answer(choice) {
    this.say('');
    if (choice === 'edit' && this.buttons.approve && !this.fields.changed()) {
      this.folded.open = true;
      this.fields.focus();
      return;
    }
    const comment = this.comment.value.trim();
    this.commentField.setError(choice === 'answer' && !comment ? 'Write the answer.' : '');
    if (choice === 'answer' && !comment) { this.comment.focus(); return; }
    let value;
    if (choice === 'edit' || (choice === 'approve' && this.fills)) {
      if (this.folded) this.folded.open = true;
      value = this.fields.read();
      if (value === null) return;
    }
    const by = this.by.value.trim();
    await this.give({ choice, ...(comment && { comment }), ...(by && { by }) }, value);
  }

  async give(answer, value) {
    const all = Object.values(this.buttons);
    for (const b of all) b.disabled = true;
    try {
      await this.send(answer, value);
    } catch (err) {
      if (value === undefined || !this.fields.complain(err.message)) this.say(err.message);
    } finally {
      for (const b of all) b.disabled = false;
      this.follow();
    }
  }

  say(message) { show(text(this.error, message), Boolean(message)); }
}
