// Times are written by the server in UTC; people read them in their own zone.
const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

// localise rewrites the text of every <time> below the element.
export function localise(root) {
  for (const t of root.querySelectorAll('time')) {
    const at = new Date(t.dateTime);
    if (!Number.isNaN(at.valueOf())) t.textContent = format.format(at);
  }
}

// stamp makes a <time> of an ISO date.
export function stamp(iso) {
  const t = document.createElement('time');
  t.dateTime = iso;
  t.textContent = format.format(new Date(iso));
  return t;
}
