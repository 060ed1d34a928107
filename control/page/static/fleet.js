// Keeps the numbers and the curves of queue and fleet current.
import { follow, refresh } from './follow.js';
import { localise } from './time.js';

localise(document.getElementById('live'));
follow('/v1/fleet/live', 'fleet', () => refresh().catch(() => {}));
