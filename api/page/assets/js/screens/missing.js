// Shown for an address that is none.

import { h } from '../dom.js';
import { empty } from '../ui.js';

export default {
  name: 'missing', title: 'Not found', match: () => true,
  mount(el) {
    el.append(h('h1', null, 'No such screen'), empty('Nothing is at this address', 'Use the navigation, or search for an id.'));
  },
};
