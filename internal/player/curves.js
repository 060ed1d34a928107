// The angles of one person as curves over the clip's time, left and right of a joint in one plot.

const SIDES = { left_: 'left', right_: 'right' };
const FIRST = ['knee', 'hip', 'elbow', 'shoulder', 'trunk'];
const REASONS = {
  rate: 'frame rate too low', missing: 'point missing', unsure: 'point unsure', view: 'towards the camera', short: 'too few pixels',
};

// plots groups the document's angles by name without side: [{name, range, lines: [{side, index}]}].
export function plots(angles) {
  const out = new Map();
  angles.forEach((a, index) => {
    const prefix = Object.keys(SIDES).find((p) => a.name.startsWith(p)) ?? '';
    const name = a.name.slice(prefix.length);
    if (!out.has(name)) out.set(name, { name, kind: a.kind, range: a.range, zero: a.zero, lines: [] });
    out.get(name).lines.push({ side: SIDES[prefix] ?? 'plain', index });
  });
  const rank = (p) => (FIRST.includes(p.name) ? FIRST.indexOf(p.name) : FIRST.length);
  return [...out.values()].sort((a, b) => rank(a) - rank(b));
}

// shownAtFirst tells which plots a report opens with.
export function shownAtFirst(name) { return FIRST.includes(name); }

// said is a value as text.
export function said(value) {
  if (!value) return '–';
  if (typeof value === 'string') return `– (${REASONS[value] ?? value})`;
  return `${Math.round(value[0])}° ± ${Math.max(1, Math.round(value[1]))}`;
}

// Curve is one plot.
export class Curve {
  constructor(plot, times, duration, seek, step) {
    Object.assign(this, { plot, times, duration: Math.max(duration, 1), seek, step, values: [] });
    this.figure = document.createElement('figure');
    this.figure.className = 'curve';
    this.figure.dataset.angle = plot.name;
    const caption = document.createElement('figcaption');
    const name = document.createElement('b');
    name.textContent = plot.name.replaceAll('_', ' ');
    name.title = `0 is ${plot.zero}`;
    this.outputs = plot.lines.map(({ side }) => {
      const out = document.createElement('output');
      out.className = side;
      return out;
    });
    caption.append(name, ...this.outputs);
    this.box = this.makeBox(name.textContent);
    this.figure.append(caption, this.box);
  }

  makeBox(name) {
    const box = document.createElement('div');
    box.className = 'plot';
    Object.assign(box, { tabIndex: 0, role: 'slider', ariaLabel: `${name}, angle over time`, ariaValueMin: 0, ariaValueMax: this.times.length - 1 });
    this.canvas = document.createElement('canvas');
    this.cursor = document.createElement('i');
    box.append(this.canvas, this.cursor);
    const at = (e) => {
      const r = box.getBoundingClientRect();
      this.seek(Math.min(1, Math.max(0, (e.clientX - r.left) / r.width)) * this.duration);
    };
    box.addEventListener('pointerdown', (e) => { box.setPointerCapture(e.pointerId); at(e); });
    box.addEventListener('pointermove', (e) => { if (box.hasPointerCapture(e.pointerId)) at(e); });
    box.addEventListener('keydown', (e) => {
      const act = {
        ArrowLeft: () => this.step(-1), ArrowDown: () => this.step(-1), ArrowRight: () => this.step(1), ArrowUp: () => this.step(1),
        PageUp: () => this.step(10), PageDown: () => this.step(-10), Home: () => this.seek(0), End: () => this.seek(this.times.at(-1) ?? 0),
      }[e.key];
      if (act) {
        e.preventDefault();
        act();
      }
    });
    return box;
  }

  // setValues takes the angles of one person in, per frame an array or nothing.
  setValues(frames) {
    this.values = this.plot.lines.map(({ index }) => frames.map((angles) => angles?.[index]));
    this.draw();
  }

  // show puts the cursor and the values of a frame.
  show(index, t) {
    this.cursor.style.left = `${(100 * Math.min(Math.max(t, 0), this.duration)) / this.duration}%`;
    const texts = this.values.map((v) => said(v[index]));
    const prefix = (side) => (side === 'plain' ? '' : side + ' ');
    texts.forEach((text, i) => { this.outputs[i].textContent = prefix(this.plot.lines[i].side) + text; });
    this.box.ariaValueNow = index;
    this.box.ariaValueText = `${(t / 1000).toFixed(2)} s: ${this.outputs.map((o) => o.textContent).join(', ')}`;
  }

  // span is the range of the plot in degrees: that of the values with their errors, at least 30 degrees.
  span() {
    let [low, high] = [Infinity, -Infinity];
    for (const line of this.values) {
      for (const v of line) {
        if (!Array.isArray(v)) continue;
        low = Math.min(low, v[0] - v[1]);
        high = Math.max(high, v[0] + v[1]);
      }
    }
    if (low > high) return null;
    const middle = (low + high) / 2;
    const half = Math.max(15, (high - low) / 2) * 1.08;
    return [middle - half, middle + half];
  }

  draw() {
    const r = this.canvas.getBoundingClientRect();
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(r.width * scale);
    this.canvas.height = Math.round(r.height * scale);
    const context = this.canvas.getContext('2d');
    const span = this.span();
    this.canvas.dataset.points = 0;
    if (!span || !this.canvas.width) return;
    const style = getComputedStyle(this.box);
    this.grid(context, span, style, scale);
    let points = 0;
    this.values.forEach((values, i) => {
      points += this.line(context, values, span, style.getPropertyValue('--' + this.plot.lines[i].side), scale);
    });
    this.canvas.dataset.points = points;
  }

  grid(context, span, style, scale) {
    const { width, height } = this.canvas;
    const every = [5, 10, 15, 30, 45, 90].find((s) => (span[1] - span[0]) / s <= 5) ?? 90;
    context.strokeStyle = style.getPropertyValue('--line');
    context.fillStyle = style.getPropertyValue('--soft');
    context.font = `${11 * scale}px system-ui, sans-serif`;
    context.lineWidth = scale;
    for (let d = Math.ceil(span[0] / every) * every; d <= span[1]; d += every) {
      const y = Math.round(height * (1 - (d - span[0]) / (span[1] - span[0]))) + 0.5;
      context.beginPath();
      context.moveTo(0, y);
      context.lineTo(width, y);
      context.stroke();
      context.fillText(`${d}°`, 4 * scale, y - 3 * scale);
    }
  }

  // line draws one curve with its band, broken where there is no value or the direction wraps round. It returns how many values it has.
  line(context, values, span, colour, scale) {
    const { width, height } = this.canvas;
    const x = (i) => (width * this.times[i]) / this.duration;
    const y = (d) => height * (1 - (d - span[0]) / (span[1] - span[0]));
    let points = 0;
    const gap = this.gap();
    const joins = (i) => i > 0 && Array.isArray(values[i - 1]) && Math.abs(values[i][0] - values[i - 1][0]) < 180 && this.times[i] - this.times[i - 1] < gap;
    for (let i = 0; i < values.length; ) {
      if (!Array.isArray(values[i])) {
        i++;
        continue;
      }
      let end = i + 1;
      while (end < values.length && Array.isArray(values[end]) && joins(end)) end++;
      points += end - i;
      this.run(context, values, i, end, x, y, colour, scale);
      i = end;
    }
    return points;
  }

  gap() {
    const steps = this.times.slice(1).map((t, i) => t - this.times[i]).sort((a, b) => a - b);
    return Math.max(200, 5 * (steps[steps.length >> 1] ?? 40));
  }

  run(context, values, from, to, x, y, colour, scale) {
    context.fillStyle = context.strokeStyle = colour;
    context.globalAlpha = 0.16;
    context.beginPath();
    for (let i = from; i < to; i++) context.lineTo(x(i), y(values[i][0] + values[i][1]));
    for (let i = to - 1; i >= from; i--) context.lineTo(x(i), y(values[i][0] - values[i][1]));
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2 * scale;
    context.lineJoin = 'round';
    context.beginPath();
    if (to - from === 1) context.arc(x(from), y(values[from][0]), scale, 0, 2 * Math.PI);
    for (let i = from; i < to; i++) context.lineTo(x(i), y(values[i][0]));
    context.stroke();
  }
}
