// Starts the page. A screen is a module in screens/; see README.md.

import { startAnswer, tokenOf } from './answer.js';
import { startShell } from './shell.js';
import overview from './screens/overview.js';
import work from './screens/work.js';
import item from './screens/item.js';
import approvals from './screens/approvals.js';
import approval from './screens/approval.js';
import dead from './screens/dead.js';
import types from './screens/types.js';
import type from './screens/type.js';
import workers from './screens/workers.js';
import batches from './screens/batches.js';
import schedules from './screens/schedules.js';
import schedule from './screens/schedule.js';
import events from './screens/events.js';
import audit from './screens/audit.js';
import missing from './screens/missing.js';

const token = tokenOf(location.hash);
if (token !== undefined) startAnswer(token);
else startShell([overview, work, item, approvals, approval, dead, types, type, workers, schedules, schedule, batches, events, audit, missing]);
addEventListener('hashchange', () => { if (tokenOf(location.hash) !== token) location.reload(); });
