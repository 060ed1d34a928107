// Keeps the first page of the list current: a look every few seconds while somebody can see it, less often after faults.
import { localise, stamp } from './time.js';

const table = document.getElementById('analyses');
const note = document.getElementById('note');
const FIRST = 3000;
const MOST = 30000;
let pause = FIRST;

function cell(content, label) {
  const td = document.createElement('td');
  if (label) td.dataset.label = label;
  if (content) td.append(content);
  return td;
}

function row(a) {
  const tr = document.createElement('tr');
  tr.dataset.analysis = a.analysisId;
  tr.dataset.status = a.status;
  const link = document.createElement('a');
  link.href = '/analyses/' + encodeURIComponent(a.analysisId);
  const name = a.clips[0]?.name;
  link.textContent = name || a.analysisId;
  const first = document.createDocumentFragment();
  first.append(link);
  if (name) {
    const id = document.createElement('span');
    id.className = 'id';
    id.textContent = a.analysisId;
    first.append(' ', id);
  }
  const state = document.createElement('span');
  state.className = 'state';
  state.dataset.status = a.status;
  state.textContent = a.status;
  tr.append(cell(first), cell(state), cell(String(a.clips.length), 'Clips'),
    cell(a.holder?.workerId, 'Worker'), cell(stamp(a.createdAt), 'Created'));
  return tr;
}

function focusedLink() {
  return document.activeElement?.closest?.('tr[data-analysis]')?.dataset.analysis;
}

function show(analyses) {
  if (analyses.length === 0) return;
  const focused = focusedLink();
  const body = table.tBodies[0];
  body.replaceChildren(...analyses.map(row));
  if (focused) [...body.rows].find((r) => r.dataset.analysis === focused)?.querySelector('a')?.focus();
}

async function look() {
  if (document.visibilityState === 'visible') {
    try {
      const response = await fetch('/v1/analyses', { headers: { Accept: 'application/json' } });
      if (!response.ok) throw new Error('status ' + response.status);
      show((await response.json()).analyses);
      pause = FIRST;
      note.textContent = '';
    } catch (fault) {
      pause = Math.min(pause * 2, MOST);
      note.textContent = 'Not current: the control plane does not answer (' + fault.message + ').';
    }
  }
  setTimeout(look, pause);
}

localise(table);
if (table.dataset.live === 'true') setTimeout(look, FIRST);
