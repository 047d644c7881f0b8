// What each state of an item is called, and looks like: a colour and a shape, so
// that neither is needed alone. Shapes are paths in a box of 16 by 16.

import { h, s } from './dom.js';

const shapes = {
  created: 'M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Zm0 1.6a3.4 3.4 0 1 1 0 6.8 3.4 3.4 0 0 1 0-6.8Z',
  waiting: 'M4.5 3h2.3v10H4.5zM9.2 3h2.3v10H9.2z',
  queued: 'M3 4h10v1.8H3zM3 7.1h10v1.8H3zM3 10.2h10V12H3z',
  claimed: 'M8 2.5a5.5 5.5 0 1 0 0 11v-11Z',
  running: 'M4.5 2.8v10.4L13 8z',
  backing_off: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Zm0 1.7a4.3 4.3 0 1 1 0 8.6 4.3 4.3 0 0 1 0-8.6Zm-.8 1.5v3.2l2.6 1.7.8-1.3-1.9-1.2V5.2z',
  delayed: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Zm0 1.7a4.3 4.3 0 1 1 0 8.6 4.3 4.3 0 0 1 0-8.6Zm-.8 1.5v3.2l2.6 1.7.8-1.3-1.9-1.2V5.2z',
  completed: 'M6.4 12.6 2.2 8.4l1.6-1.6 2.6 2.6 5.8-5.8 1.6 1.6z',
  failed: 'M8 1.8 15 14H1L8 1.8Zm-.8 4.4v3.9h1.6V6.2H7.2Zm0 4.8v1.6h1.6V11H7.2Z',
  dead: 'M3.9 2.5 8 6.6l4.1-4.1 1.4 1.4L9.4 8l4.1 4.1-1.4 1.4L8 9.4l-4.1 4.1-1.4-1.4L6.6 8 2.5 3.9z',
  cancelled: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Zm0 1.7c.9 0 1.8.3 2.5.8l-6 6A4.3 4.3 0 0 1 8 3.7Zm0 8.6c-.9 0-1.8-.3-2.5-.8l6-6A4.3 4.3 0 0 1 8 12.3Z',
  merged: 'M3 3h2v2.5C5 7.4 6.4 8 8 8V5.5L13 9l-5 3.5V10C5 10 3 8.6 3 5.5z',
};

const names = { backing_off: 'backing off' };

// STATES are those that an item can have, in the order of a life.
export const STATES = ['created', 'waiting', 'queued', 'claimed', 'running', 'completed', 'dead', 'cancelled', 'merged'];

// TERMINAL are those that end a life.
export const TERMINAL = new Set(['completed', 'dead', 'cancelled', 'merged']);

// BATCH is the type of batches. The engine runs none of it, so it can't be paused, and
// nobody can submit an item of it.
export const BATCH = 'batch';

// stateName is how a state is called.
export const stateName = (state) => names[state] ?? state;

// mark is the shape of a state.
export function mark(state) {
  return s('svg', { class: `mark st-${state}`, viewBox: '0 0 16 16', width: 12, height: 12, 'aria-hidden': 'true' }, s('path', { d: shapes[state] ?? shapes.created }));
}

// badge is the shape and the name of a state.
export function badge(state) {
  return h('span', { class: `badge st-${state}` }, mark(state), stateName(state));
}

// running is how many items of a type run: a worker has claimed or begun them.
export const running = (t) => (t.states?.running ?? 0) + (t.states?.claimed ?? 0);

// eventName is what an event says has happened: kinds that name a state are told as
// what has become so.
export const eventName = (kind) => ({ running: 'started', waiting: 'began to wait', dead: 'died' }[kind] ?? kind.replaceAll('_', ' '));

// shownState is the state of an item as it is shown: one that is queued and not
// due yet is backing off after an attempt, or delayed.
export function shownState(item, now) {
  if (item.state !== 'queued' || !(Date.parse(item.available_at ?? '') > now)) return item.state;
  return item.attempt > 0 && item.error ? 'backing_off' : 'delayed';
}
