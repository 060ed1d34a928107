// Keeps the part #live of a page current: it is fetched again whenever a server-sent event tells that something changed.
import { localise } from './time.js';

const live = document.getElementById('live');
const RETRIES = 4;
let asked = 0;

// refresh puts the part in as it is now. What has the focus, or is being written, stays.
export async function refresh() {
  const turn = ++asked;
  const url = new URL(location.href);
  url.searchParams.set('part', 'live');
  const template = document.createElement('template');
  template.innerHTML = await part(url, turn);
  if (turn !== asked || writing()) return;
  const key = focusKey();
  localise(template.content);
  live.replaceChildren(template.content);
  if (key) live.querySelector(key)?.focus();
}

// part fetches the page's part. The last event of a stream has no other after it, so what fails is asked for again, unless a later turn asks anyway.
async function part(url, turn) {
  for (let n = 0; ; n++) {
    try {
      const response = await fetch(url, { headers: { Accept: 'text/html' } });
      if (!response.ok) throw new Error('status ' + response.status);
      return await response.text();
    } catch (fault) {
      if (n === RETRIES || turn !== asked) throw fault;
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** n));
    }
  }
}

// writing tells whether somebody is filling in a form of the part, which must not vanish under their hands.
function writing() {
  return [...live.querySelectorAll('input[type=text]')].some((i) => i.value !== '' || i === document.activeElement);
}

function focusKey() {
  const link = document.activeElement?.closest?.('#live a');
  return link && `a[href="${CSS.escape(link.getAttribute('href'))}"]`;
}

// follow calls changed at each event of the stream. The browser reconnects by itself after faults.
export function follow(path, event, changed, end) {
  const events = new EventSource(path);
  events.addEventListener(event, changed);
  events.addEventListener('open', () => say(''));
  events.addEventListener('error', () => {
    if (events.readyState !== EventSource.OPEN) say('Not current: the control plane does not answer.');
  });
  events.addEventListener('end', () => {
    events.close();
    end?.();
  });
  window.addEventListener('pagehide', () => events.close());
}

function say(text) {
  const note = document.getElementById('note');
  if (note && !document.getElementById('player')) note.textContent = text;
}
