// Keeps the part #live of a page current: it is fetched again whenever a server-sent event tells that something changed.
import { localise } from './time.js';

const live = document.getElementById('live');
const RETRIES = 4;
let running = null;
let again = false;

// refresh puts the part in as it is now. However often it is asked for meanwhile, one answer is waited for at a time and each is shown: where
// changes come faster than answers, the page would never show one otherwise.
export function refresh() {
  again = true;
  running ??= work().finally(() => { running = null; });
  return running;
}

async function work() {
  const url = new URL(location.href);
  url.searchParams.set('part', 'live');
  while (again) show(await part(url));
}

// show puts the part in. What has the focus, or is being written, stays.
function show(text) {
  if (writing()) return;
  const template = document.createElement('template');
  template.innerHTML = text;
  const key = focusKey();
  localise(template.content);
  live.replaceChildren(template.content);
  if (key) live.querySelector(key)?.focus();
}

// part fetches the page's part. The last event of a stream has no other after it, so what fails is asked for again.
async function part(url) {
  for (let n = 0; ; n++) {
    again = false;
    try {
      const response = await fetch(url, { headers: { Accept: 'text/html' } });
      if (!response.ok) throw new Error('status ' + response.status);
      return await response.text();
    } catch (fault) {
      if (n >= RETRIES && !again) throw fault;
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** Math.min(n, RETRIES)));
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
