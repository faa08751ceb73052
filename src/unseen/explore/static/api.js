// Requests to the server. Their addresses are relative to that of the page, so that they contain its token.
export const TAB = crypto.randomUUID();

export class ServerError extends Error {}

export async function call(name, values = {}, signal = undefined) {
  const response = await fetch(`api/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tab: TAB, ...values }),
    signal,
  });
  if (response.status === 204) throw new DOMException("A newer request supersedes this one.", "AbortError");
  const result = await response.json();
  if (!response.ok) throw new ServerError(result.error ?? `The server responded with status ${response.status}.`);
  return result;
}

// Arrays are sent as their bytes.
export function unpack({ shape, float32 }) {
  const text = atob(float32);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return { n: shape[0], q: shape[1], values: new Float32Array(bytes.buffer) };
}

// Make an element with attributes and children; text is never interpreted as markup.
export function element(name, attributes = {}, ...children) {
  const created = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) created.setAttribute(key, value === true ? "" : value);
  }
  created.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return created;
}

export const byId = (id) => document.getElementById(id);
export const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}%`);

export function showStatus(text, alarm = false) {
  const status = byId("status");
  status.textContent = text;
  status.classList.toggle("alarm", alarm);
}

// The message of an error of a request.
export const errorText = (error) => (error instanceof ServerError ? error.message : "The server does not respond. Is the command still running?");
