// Points on a canvas, flat or turning: drawn in groups, found under the pointer, walked by arrow keys, caught by a lasso.
const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down"];
const COLORS = 10;
const RADIUS = 3.2;
const NEAR = 14; // pixels within which the pointer finds a point

export function traceShape(path, shape, x, y, r) {
  if (shape === "circle") { path.moveTo(x + r, y); path.arc(x, y, r, 0, 7); }
  else if (shape === "square") path.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else if (shape === "cross") {
    path.moveTo(x - r, y - r); path.lineTo(x + r, y + r);
    path.moveTo(x - r, y + r); path.lineTo(x + r, y - r);
  } else {
    const corners = { triangle: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]], down: [[0, 1.2], [1.1, -0.9], [-1.1, -0.9]],
      diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]] }[shape];
    corners.forEach(([a, b], i) => (i ? path.lineTo(x + a * r, y + b * r) : path.moveTo(x + a * r, y + b * r)));
    path.closePath();
  }
}

// A color of the style sheet as a canvas takes it, in the theme that is on.
function inks(canvas) {
  const probe = document.createElement("span"), found = new Map();
  canvas.parentElement.append(probe);
  return {
    of(name) {
      if (!found.has(name)) {
        probe.style.color = `var(${name})`;
        found.set(name, getComputedStyle(probe).color);
      }
      return found.get(name);
    },
    end: () => probe.remove(),
  };
}

export const shapeOf = (i) => SHAPES[i % SHAPES.length];
export const colourOf = (i) => `--q${i % COLORS}`;

export class Plot {
  // `tell(i)` gives the lines about point i; `chosen(indices)` hears of lassos.
  constructor(canvas, tip, { tell, chosen = null, drawn = () => {} }) {
    Object.assign(this, { canvas, tip, tell, chosen, drawn });
    this.points = null; // { n, q, values }
    this.groups = []; // { rows, color, shape, hollow }
    this.marks = []; // rows to be ringed
    this.anchors = []; // { x, y, name, color }
    this.turn = { yaw: 0.6, pitch: 0.4 };
    this.dims = 2;
    this.at = -1;
    this.picked = new Set();
    this.lasso = null;
    this.frame = 0;
    this.listen();
    new ResizeObserver(() => this.later()).observe(canvas);
  }

  show(points, { groups, marks = [], anchors = [], dims = 2, lanes = null }) {
    Object.assign(this, { points, groups, marks, anchors, lanes });
    this.dims = points.q >= 3 ? dims : 2;
    this.canvas.setAttribute("aria-valuemax", Math.max(1, points.n));
    if (this.at >= 0) this.tip.textContent = this.tell(this.at);
    this.later();
  }

  later() {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  // Where points are on the screen: of one scale along all axes, as distances are what classifiers see.
  project() {
    const { n, q, values } = this.points, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const xs = new Float32Array(n), ys = new Float32Array(n), center = [0, 0, 0], used = Math.min(q, 3);
    const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
    const shown = this.dims === 3 ? 3 : Math.min(2, used);
    for (let i = 0; i < n; i++) for (let k = 0; k < shown; k++) {
      const v = values[i * q + k];
      if (v < low[k]) low[k] = v;
      if (v > high[k]) high[k] = v;
    }
    for (const { place } of this.anchors) for (let k = 0; k < 2; k++) {
      low[k] = Math.min(low[k], place[k]); high[k] = Math.max(high[k], place[k]);
    }
    for (let k = 0; k < shown; k++) center[k] = (low[k] + high[k]) / 2;
    const half = (k) => Math.max((high[k] - low[k]) / 2, 1e-12), pad = 18;
    let scale, put;
    if (this.dims === 3) {
      const radius = Math.hypot(half(0), half(1), half(2));
      scale = (Math.min(width, height) / 2 - pad) / radius;
      const { yaw, pitch } = this.turn, cy = Math.cos(yaw), sy = Math.sin(yaw), cp = Math.cos(pitch), sp = Math.sin(pitch);
      put = (a, b, c) => {
        const x = cy * a + sy * c, z = -sy * a + cy * c;
        return [x, cp * b - sp * z];
      };
    } else if (shown === 1) { // one component: domains in lanes, whose height says nothing else
      scale = (width / 2 - pad) / half(0);
      const lanes = Math.max(1, this.lanes?.count ?? 1);
      put = (a, b, c, i) => [a, ((((this.lanes?.of[i] ?? 0) + 0.5) / lanes - 0.5) * (height - 2 * pad)
        + ((Math.sin(i * 12.9898) * 43758.5453) % 1) * 0.35 * (height / lanes)) / scale];
    } else {
      scale = Math.min((width / 2 - pad) / half(0), (height / 2 - pad) / half(1));
      put = (a, b) => [a, b];
    }
    const onScreen = (a, b, c, i) => {
      const [x, y] = put(a - center[0], b - center[1], c - center[2], i);
      return [width / 2 + scale * x, height / 2 - scale * y];
    };
    for (let i = 0; i < n; i++) {
      [xs[i], ys[i]] = onScreen(values[i * q], shown > 1 ? values[i * q + 1] : 0, shown > 2 ? values[i * q + 2] : 0, i);
    }
    this.screen = { xs, ys, onScreen };
  }

  draw() {
    if (!this.points) return;
    const { canvas } = this, ratio = window.devicePixelRatio || 1, ink = inks(canvas);
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.project();
    const { xs, ys } = this.screen;
    for (const { rows, color, shape, hollow } of this.groups) {
      const path = new Path2D();
      for (const i of rows) traceShape(path, shape, xs[i], ys[i], RADIUS);
      pen.fillStyle = pen.strokeStyle = ink.of(color);
      pen.globalAlpha = hollow ? 0.95 : 0.7;
      pen.lineWidth = 1.4;
      if (hollow || shape === "cross") pen.stroke(path); else pen.fill(path);
    }
    pen.globalAlpha = 1;
    this.ring(pen, this.marks, ink.of("--alarm"), RADIUS + 2.5, 1);
    this.ring(pen, this.picked, ink.of("--ink"), RADIUS + 2, 1.5);
    if (this.at >= 0) this.ring(pen, [this.at], ink.of("--accent"), RADIUS + 5, 2.5);
    for (const { place, name, color } of this.anchors) this.anchor(pen, place, name, ink.of(color), ink);
    if (this.lasso?.length > 1) {
      pen.beginPath();
      this.lasso.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.setLineDash([4, 3]); pen.strokeStyle = ink.of("--ink"); pen.lineWidth = 1.2; pen.stroke();
      pen.setLineDash([]);
    }
    ink.end();
    if (this.at >= 0) this.placeTip();
    this.drawn();
  }

  ring(pen, rows, color, radius, width) {
    const { xs, ys } = this.screen, path = new Path2D();
    for (const i of rows) { path.moveTo(xs[i] + radius, ys[i]); path.arc(xs[i], ys[i], radius, 0, 7); }
    pen.strokeStyle = color; pen.lineWidth = width; pen.stroke(path);
  }

  anchor(pen, place, name, color, ink) {
    const [x, y] = this.screen.onScreen(place[0], place[1], 0, 0);
    pen.beginPath(); pen.arc(x, y, 8, 0, 7);
    pen.fillStyle = color; pen.fill();
    pen.strokeStyle = ink.of("--paper"); pen.lineWidth = 2; pen.stroke();
    pen.font = "600 12px system-ui, sans-serif"; pen.fillStyle = ink.of("--ink");
    pen.textAlign = x > this.canvas.clientWidth / 2 ? "right" : "left";
    pen.fillText(name, x + (pen.textAlign === "left" ? 12 : -12), y + 4);
  }

  listen() {
    const { canvas } = this, where = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left - 1, event.clientY - box.top - 1];
    };
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = where(event);
      if (this.drag) {
        this.turn.yaw += (x - this.drag[0]) * 0.01;
        this.turn.pitch = Math.max(-1.5, Math.min(1.5, this.turn.pitch + (y - this.drag[1]) * 0.01));
        this.drag = [x, y];
        this.later();
      } else if (this.lasso) {
        this.lasso.push([x, y]);
        this.later();
      } else this.point(this.nearest(x, y));
    });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button || !this.points) return;
      canvas.setPointerCapture(event.pointerId);
      if (this.dims === 3 && !event.shiftKey) this.drag = where(event);
      else if (this.chosen) this.lasso = [where(event)];
    });
    const end = () => {
      if (this.lasso) this.caught();
      this.drag = this.lasso = null;
      this.later();
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", () => { this.drag = this.lasso = null; this.later(); });
    canvas.addEventListener("pointerleave", () => { if (!this.lasso && !this.drag) this.point(-1); });
    canvas.addEventListener("blur", () => this.point(-1));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (!this.points) return;
    const n = this.points.n, at = this.at, steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1,
      ArrowUp: at - 1, Home: 0, End: n - 1, PageDown: at + 50, PageUp: at - 50 };
    if (this.dims === 3 && event.shiftKey && event.key.startsWith("Arrow")) {
      const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      this.turn.yaw += by[0];
      this.turn.pitch += by[1];
      this.later();
    } else if (event.key in steps) this.point(Math.max(0, Math.min(n - 1, steps[event.key])));
    else if (event.key === "Escape") this.point(-1);
    else if ((event.key === "Enter" || event.key === " ") && at >= 0 && this.chosen) {
      if (!this.picked.delete(at)) this.picked.add(at);
      this.chosen([...this.picked].sort((a, b) => a - b));
      this.later();
    } else return;
    event.preventDefault();
  }

  nearest(x, y) {
    if (!this.screen) return -1;
    const { xs, ys } = this.screen;
    let best = -1, least = NEAR * NEAR;
    for (let i = 0; i < xs.length; i++) {
      const d = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  point(i) {
    if (i === this.at) return;
    this.at = i;
    this.tip.hidden = i < 0;
    if (i >= 0) {
      const text = this.tell(i);
      this.tip.textContent = text;
      this.canvas.setAttribute("aria-valuenow", i + 1);
      this.canvas.setAttribute("aria-valuetext", text.replaceAll("\n", ", "));
      this.placeTip();
    }
    this.later();
  }

  placeTip() {
    const x = this.screen.xs[this.at], y = this.screen.ys[this.at], left = x > this.canvas.clientWidth / 2;
    this.tip.style.left = left ? "" : `${x + 12}px`;
    this.tip.style.right = left ? `${this.canvas.clientWidth - x + 12}px` : "";
    this.tip.style.top = `${Math.max(0, Math.min(y - 10, this.canvas.clientHeight - 70))}px`;
  }

  // What lies inside the lasso, by counting edges to the right.
  caught() {
    const { xs, ys } = this.screen, loop = this.lasso;
    this.picked = new Set();
    if (loop.length > 2) for (let i = 0; i < xs.length; i++) {
      let inside = false;
      for (let a = 0, b = loop.length - 1; a < loop.length; b = a++) {
        const [ax, ay] = loop[a], [bx, by] = loop[b];
        if (ay > ys[i] !== by > ys[i] && xs[i] < ((bx - ax) * (ys[i] - ay)) / (by - ay) + ax) inside = !inside;
      }
      if (inside) this.picked.add(i);
    }
    this.chosen([...this.picked]);
  }

  forget() {
    this.picked = new Set();
    this.later();
  }
}
