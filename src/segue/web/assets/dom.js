// Create and find elements. Children are text or nodes: markup is never built from strings.

/** @import { Elements, Icon } from "../elements.js" */
/** @typedef {string | number | boolean | null} Value */
/** @typedef {Node | string | false | null | undefined} Child */

const SVG = "http://www.w3.org/2000/svg";

/** @type {<Id extends keyof Elements>(id: Id) => Elements[Id]} */
export const byId = (id) => /** @type {any} */ (document.getElementById(id)); // a test checks the ids

/** The nearest element with that name around the target of the event.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Event} event
 * @param {Name} name */
export const closest = ({ target }, name) => (target instanceof Element ? target.closest(name) : null);

/** Attributes are left out if they are false or null, and have no text if they are true.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, Value>} attributes
 * @param {Child[]} children */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null) node.setAttribute(key, String(value));
  }
  for (const child of children) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

/** @param {Icon} name */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** One of our own texts. Parts between backticks are for the user to type, and become code.
 * @param {string} text */
export const typed = (text) =>
  text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));

/** Make `old` look like `fresh`, and leave equal parts alone, so that the selection, focus
 * and scroll position survive while a message grows.
 * @param {ChildNode} old
 * @param {ChildNode} fresh */
export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName || !(old instanceof Element && fresh instanceof Element)) {
    old.replaceWith(fresh);
    return;
  }
  for (const { name } of [...old.attributes]) {
    // Details that the user opened stay open.
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  for (const [i, child] of after.entries()) {
    const known = before.at(i);
    if (known) morph(known, child);
    else old.append(child);
  }
  for (const child of before.slice(after.length)) child.remove();
}
