// The few icons of the page, as strokes in a box of 20 by 20.

import { s } from './dom.js';

const paths = {
  overview: 'M3 11h5v6H3zM3 3h5v5H3zM11 3h6v6h-6zM11 12h6v5h-6z',
  work: 'M4 5h12M4 10h12M4 15h8',
  dead: 'M5 5l10 10M15 5L5 15',
  types: 'M4 6h5M12 6h4M4 14h2M9 14h7M10.5 4v4M7.5 12v4',
  workers: 'M10 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM4 17c0-3.3 2.7-5 6-5s6 1.7 6 5',
  batches: 'M4 4h12v4H4zM4 12h12v4H4zM7 6h3M7 14h6',
  schedules: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM10 6v4l2.6 2',
  events: 'M2 10h4l2.5-6 3.5 12 2.5-6H18',
  docs: 'M10 5.5C8.5 4.4 6.5 4 3 4v11c3.5 0 5.5.4 7 1.5 1.5-1.1 3.5-1.5 7-1.5V4c-3.5 0-5.5.4-7 1.5ZM10 5.5v11',
  search: 'M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12ZM13.5 13.5 17 17',
  theme: 'M10 3a7 7 0 1 0 0 14V3Z',
  help: 'M7 7.5a3 3 0 1 1 4.3 2.7c-.9.5-1.3 1-1.3 2M10 15.2v.1',
  refresh: 'M16 10a6 6 0 1 1-1.8-4.3L16 7.5M16 3.5v4h-4',
  copy: 'M7 7h9v9H7zM4 13V4h9',
  more: 'M5 10h.1M10 10h.1M15 10h.1',
  close: 'M5 5l10 10M15 5L5 15',
};

// icon is one of them; what it means must be said by a label beside it.
export function icon(name) {
  return s('svg', { class: 'icon', viewBox: '0 0 20 20', width: 18, height: 18, 'aria-hidden': 'true' }, s('path', { d: paths[name] }));
}
