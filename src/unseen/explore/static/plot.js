// A scatter plot on a canvas, in two or three dimensions. Points are selected with the pointer, the arrow keys or a lasso.
const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down"];
const N_COLORS = 10;
const RADIUS = 3.2;
const MAX_DISTANCE = 14; // pixels between the pointer and the nearest point

export function traceShape(path, shape, x, y, r) {
  if (shape === "circle") {
    path.moveTo(x + r, y);
    path.arc(x, y, r, 0, 7);
  } else if (shape === "square") {
    path.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  } else if (shape === "cross") {
    path.moveTo(x - r, y - r);
    path.lineTo(x + r, y + r);
    path.moveTo(x - r, y + r);
    path.lineTo(x + r, y - r);
  } else {
    const corners = { triangle: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]], down: [[0, 1.2], [1.1, -0.9], [-1.1, -0.9]],
      diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]] }[shape];
    corners.forEach(([a, b], i) => (i ? path.lineTo(x + a * r, y + b * r) : path.moveTo(x + a * r, y + b * r)));
    path.closePath();
  }
}

// Colors of the style sheet in the current theme, as values for a canvas.
function themeColors(canvas) {
  const probe = document.createElement("span");
  const colors = new Map();
  canvas.parentElement.append(probe);
  return {
    get(name) {
      if (!colors.has(name)) {
        probe.style.color = `var(${name})`;
        colors.set(name, getComputedStyle(probe).color);
      }
      return colors.get(name);
    },
    remove: () => probe.remove(),
  };
}

export const shapeOf = (i) => SHAPES[i % SHAPES.length];
export const colorOf = (i) => `--q${i % N_COLORS}`;

export class Plot {
  // `describe(i)` returns the text of point i; `onSelect(indices)` is called after a selection, `onDrawn()` after drawing.
  constructor(canvas, tip, { describe, onSelect = null, onDrawn = () => {} }) {
    Object.assign(this, { canvas, tip, describe, onSelect, onDrawn });
    this.points = null; // { n, q, values }
    this.groups = []; // { rows, color, shape, hollow }
    this.marks = []; // points with a ring
    this.anchors = []; // { position, name, color }
    this.rotation = { yaw: 0.6, pitch: 0.4 };
    this.dims = 2;
    this.focused = -1;
    this.selected = new Set();
    this.lasso = null;
    this.frame = 0;
    this.listen();
    new ResizeObserver(() => this.requestDraw()).observe(canvas);
  }

  show(points, { groups, marks = [], anchors = [], dims = 2, lanes = null }) {
    Object.assign(this, { points, groups, marks, anchors, lanes });
    this.dims = points.q >= 3 ? dims : 2;
    this.canvas.setAttribute("aria-valuemax", Math.max(1, points.n));
    if (this.focused >= 0) this.tip.textContent = this.describe(this.focused);
    this.requestDraw();
  }

  requestDraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  // Compute positions on the screen. All axes have the same scale, since classifiers depend on distances.
  project() {
    const { n, q, values } = this.points;
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const xs = new Float32Array(n);
    const ys = new Float32Array(n);
    const center = [0, 0, 0];
    const low = [Infinity, Infinity, Infinity];
    const high = [-Infinity, -Infinity, -Infinity];
    const shown = this.dims === 3 ? 3 : Math.min(2, q);
    for (let i = 0; i < n; i++) for (let k = 0; k < shown; k++) {
      const v = values[i * q + k];
      if (v < low[k]) low[k] = v;
      if (v > high[k]) high[k] = v;
    }
    for (const { position } of this.anchors) for (let k = 0; k < 2; k++) {
      low[k] = Math.min(low[k], position[k]);
      high[k] = Math.max(high[k], position[k]);
    }
    for (let k = 0; k < shown; k++) center[k] = (low[k] + high[k]) / 2;
    const half = (k) => Math.max((high[k] - low[k]) / 2, 1e-12);
    const pad = 18;
    let scale;
    let rotate;
    if (this.dims === 3) {
      const radius = Math.hypot(half(0), half(1), half(2));
      scale = (Math.min(width, height) / 2 - pad) / radius;
      const { yaw, pitch } = this.rotation;
      const cy = Math.cos(yaw);
      const sy = Math.sin(yaw);
      const cp = Math.cos(pitch);
      const sp = Math.sin(pitch);
      rotate = (a, b, c) => {
        const x = cy * a + sy * c;
        const z = -sy * a + cy * c;
        return [x, cp * b - sp * z];
      };
    } else if (shown === 1) { // with one component, the height is a lane for each domain plus random noise
      scale = (width / 2 - pad) / half(0);
      const lanes = Math.max(1, this.lanes?.count ?? 1);
      rotate = (a, b, c, i) => [a, ((((this.lanes?.of[i] ?? 0) + 0.5) / lanes - 0.5) * (height - 2 * pad)
        + ((Math.sin(i * 12.9898) * 43758.5453) % 1) * 0.35 * (height / lanes)) / scale];
    } else {
      scale = Math.min((width / 2 - pad) / half(0), (height / 2 - pad) / half(1));
      rotate = (a, b) => [a, b];
    }
    const onScreen = (a, b, c, i) => {
      const [x, y] = rotate(a - center[0], b - center[1], c - center[2], i);
      return [width / 2 + scale * x, height / 2 - scale * y];
    };
    for (let i = 0; i < n; i++) {
      [xs[i], ys[i]] = onScreen(values[i * q], shown > 1 ? values[i * q + 1] : 0, shown > 2 ? values[i * q + 2] : 0, i);
    }
    this.screen = { xs, ys, onScreen };
  }

  draw() {
    if (!this.points) return;
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const colors = themeColors(canvas);
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.project();
    const { xs, ys } = this.screen;
    for (const { rows, color, shape, hollow } of this.groups) {
      const path = new Path2D();
      for (const i of rows) traceShape(path, shape, xs[i], ys[i], RADIUS);
      context.fillStyle = context.strokeStyle = colors.get(color);
      context.globalAlpha = hollow ? 0.95 : 0.7;
      context.lineWidth = 1.4;
      if (hollow || shape === "cross") context.stroke(path); else context.fill(path);
    }
    context.globalAlpha = 1;
    this.drawRings(context, this.marks, colors.get("--alarm"), RADIUS + 2.5, 1);
    this.drawRings(context, this.selected, colors.get("--ink"), RADIUS + 2, 1.5);
    if (this.focused >= 0) this.drawRings(context, [this.focused], colors.get("--accent"), RADIUS + 5, 2.5);
    for (const anchor of this.anchors) this.drawAnchor(context, anchor, colors);
    if (this.lasso?.length > 1) {
      context.beginPath();
      this.lasso.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.setLineDash([4, 3]);
      context.strokeStyle = colors.get("--ink");
      context.lineWidth = 1.2;
      context.stroke();
      context.setLineDash([]);
    }
    colors.remove();
    if (this.focused >= 0) this.placeTip();
    this.onDrawn();
  }

  drawRings(context, rows, color, radius, width) {
    const { xs, ys } = this.screen;
    const path = new Path2D();
    for (const i of rows) {
      path.moveTo(xs[i] + radius, ys[i]);
      path.arc(xs[i], ys[i], radius, 0, 7);
    }
    context.strokeStyle = color;
    context.lineWidth = width;
    context.stroke(path);
  }

  drawAnchor(context, { position, name, color }, colors) {
    const [x, y] = this.screen.onScreen(position[0], position[1], 0, 0);
    context.beginPath();
    context.arc(x, y, 8, 0, 7);
    context.fillStyle = colors.get(color);
    context.fill();
    context.strokeStyle = colors.get("--paper");
    context.lineWidth = 2;
    context.stroke();
    context.font = "600 12px system-ui, sans-serif";
    context.fillStyle = colors.get("--ink");
    context.textAlign = x > this.canvas.clientWidth / 2 ? "right" : "left";
    context.fillText(name, x + (context.textAlign === "left" ? 12 : -12), y + 4);
  }

  listen() {
    const { canvas } = this;
    const where = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left - 1, event.clientY - box.top - 1];
    };
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = where(event);
      if (this.drag) {
        this.rotation.yaw += (x - this.drag[0]) * 0.01;
        this.rotation.pitch = Math.max(-1.5, Math.min(1.5, this.rotation.pitch + (y - this.drag[1]) * 0.01));
        this.drag = [x, y];
        this.requestDraw();
      } else if (this.lasso) {
        this.lasso.push([x, y]);
        this.requestDraw();
      } else this.focusPoint(this.nearest(x, y));
    });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button || !this.points) return;
      canvas.setPointerCapture(event.pointerId);
      if (this.dims === 3 && !event.shiftKey) this.drag = where(event);
      else if (this.onSelect) this.lasso = [where(event)];
    });
    const end = () => {
      if (this.lasso) this.selectInside();
      this.drag = null;
      this.lasso = null;
      this.requestDraw();
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", () => {
      this.drag = null;
      this.lasso = null;
      this.requestDraw();
    });
    canvas.addEventListener("pointerleave", () => {
      if (!this.lasso && !this.drag) this.focusPoint(-1);
    });
    canvas.addEventListener("blur", () => this.focusPoint(-1));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (!this.points) return;
    const n = this.points.n;
    const focused = this.focused;
    const targets = {
      ArrowRight: focused + 1, ArrowDown: focused + 1, ArrowLeft: focused - 1, ArrowUp: focused - 1,
      Home: 0, End: n - 1, PageDown: focused + 50, PageUp: focused - 50,
    };
    if (this.dims === 3 && event.shiftKey && event.key.startsWith("Arrow")) {
      const change = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      this.rotation.yaw += change[0];
      this.rotation.pitch += change[1];
      this.requestDraw();
    } else if (event.key in targets) this.focusPoint(Math.max(0, Math.min(n - 1, targets[event.key])));
    else if (event.key === "Escape") this.focusPoint(-1);
    else if ((event.key === "Enter" || event.key === " ") && focused >= 0 && this.onSelect) {
      if (!this.selected.delete(focused)) this.selected.add(focused);
      this.onSelect([...this.selected].sort((a, b) => a - b));
      this.requestDraw();
    } else return;
    event.preventDefault();
  }

  nearest(x, y) {
    if (!this.screen) return -1;
    const { xs, ys } = this.screen;
    let nearest = -1;
    let smallest = MAX_DISTANCE ** 2;
    for (let i = 0; i < xs.length; i++) {
      const distance = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
      if (distance < smallest) {
        smallest = distance;
        nearest = i;
      }
    }
    return nearest;
  }

  focusPoint(i) {
    if (i === this.focused) return;
    this.focused = i;
    this.tip.hidden = i < 0;
    if (i >= 0) {
      const text = this.describe(i);
      this.tip.textContent = text;
      this.canvas.setAttribute("aria-valuenow", i + 1);
      this.canvas.setAttribute("aria-valuetext", text.replaceAll("\n", ", "));
      this.placeTip();
    }
    this.requestDraw();
  }

  placeTip() {
    const x = this.screen.xs[this.focused];
    const y = this.screen.ys[this.focused];
    const left = x > this.canvas.clientWidth / 2;
    this.tip.style.left = left ? "" : `${x + 12}px`;
    this.tip.style.right = left ? `${this.canvas.clientWidth - x + 12}px` : "";
    this.tip.style.top = `${Math.max(0, Math.min(y - 10, this.canvas.clientHeight - 70))}px`;
  }

  // Select the points inside the lasso: those with an odd number of edges to the right.
  selectInside() {
    const { xs, ys } = this.screen;
    const loop = this.lasso;
    this.selected = new Set();
    if (loop.length > 2) for (let i = 0; i < xs.length; i++) {
      let inside = false;
      for (let a = 0, b = loop.length - 1; a < loop.length; b = a++) {
        const [ax, ay] = loop[a];
        const [bx, by] = loop[b];
        if (ay > ys[i] !== by > ys[i] && xs[i] < ((bx - ax) * (ys[i] - ay)) / (by - ay) + ax) inside = !inside;
      }
      if (inside) this.selected.add(i);
    }
    this.onSelect([...this.selected]);
  }

  clearSelection() {
    this.selected = new Set();
    this.requestDraw();
  }
}
