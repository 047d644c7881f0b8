// Shown for an address that is none.

import { h } from '../dom.js';
import { empty } from '../ui.js';

export default {
  name: 'missing', title: 'Not found', match: () => true,
  mount(el) {
    el.append(h('h1', null, 'There is no such screen'), empty('The address leads nowhere', 'Use the navigation, or search for an id.'));
  },
};
