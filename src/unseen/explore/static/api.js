// Calls of the server: beside this page, so that the token in its address is in theirs.
export const TAB = crypto.randomUUID();

export class Failed extends Error {}

export async function call(name, told = {}, signal = undefined) {
  const response = await fetch(`api/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tab: TAB, ...told }),
    signal,
  });
  if (response.status === 204) throw new DOMException("Somebody moved on.", "AbortError");
  const found = await response.json();
  if (!response.ok) throw new Failed(found.error ?? `The server says ${response.status}.`);
  return found;
}

// Arrays come as their bytes.
export function unpack({ shape, float32 }) {
  const text = atob(float32), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return { n: shape[0], q: shape[1], values: new Float32Array(bytes.buffer) };
}

// An element with attributes and children; text is never read as markup.
export function element(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export const byId = (id) => document.getElementById(id);
export const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}%`);

export function say(text, alarm = false) {
  const status = byId("status");
  status.textContent = text;
  status.classList.toggle("alarm", alarm);
}
