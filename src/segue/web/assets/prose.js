// Message HTML as elements. The server has already sanitised it; this is the second line of
// defence: each element is created from scratch, and only what is listed here is copied.

import { el, icon } from "./dom.js";

const XHTML = "http://www.w3.org/1999/xhtml";
const KEPT = new Set(
  ("A B BLOCKQUOTE BR CODE DEL DIV EM HR I LI OL P PRE S SPAN STRONG SUB SUP" +
    " TABLE TBODY TD TH THEAD TR UL").split(" "),
);
/** Dropped with their content. Other elements that are not kept are replaced by their text. */
const LEFT_OUT = new Set(
  ("APPLET AUDIO BUTTON CANVAS EMBED FORM FRAME FRAMESET IFRAME INPUT NOEMBED NOFRAMES NOSCRIPT" +
    " OBJECT SCRIPT SELECT STYLE TEMPLATE TEXTAREA TITLE VIDEO").split(" "),
);
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
/** Pygments' short class names, and the language of a block. */
const CODE_CLASS = /^(hl|[a-z][a-z0-9]{0,2}|language-[\w+#.-]{1,30})$/;
const CELL_CLASS = /^align-(left|center|right)$/;

/** The elements for a piece of HTML from the server.
 * @param {string} html */
export function prose(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const fragment = document.createDocumentFragment();
  take(parsed.body, fragment, false);
  return fragment;
}

/** Its text, for screen readers.
 * @param {string} html */
export const words = (html) =>
  new DOMParser().parseFromString(html, "text/html").body.textContent.trim();

/** @param {Element} from
 * @param {Element | DocumentFragment} to
 * @param {boolean} inCode */
function take(from, to, inCode) {
  for (const child of from.childNodes) {
    if (child instanceof Text) to.append(child.data);
    else if (child instanceof Element) takeElement(child, to, inCode);
  }
}

/** @param {Element} source
 * @param {Element | DocumentFragment} to
 * @param {boolean} inCode */
function takeElement(source, to, inCode) {
  const name = source.nodeName;
  if (source.namespaceURI !== XHTML || LEFT_OUT.has(name)) return;
  if (name === "IMG") {
    to.append(source.getAttribute("alt") ?? "");
    return;
  }
  const made = counterpart(source, name, inCode);
  take(source, made ?? to, inCode || name === "PRE" || name === "CODE");
  if (made) to.append(dressed(made));
}

/** @param {Element} source
 * @param {string} name
 * @param {boolean} inCode */
function counterpart(source, name, inCode) {
  // All headings get the same level: a message must not change the page's outline.
  if (/^H[1-6]$/.test(name)) return el("h2", { class: `heading-${name.charAt(1)}` });
  if (!KEPT.has(name)) return null;
  if (name === "A") return link(source);
  const made = document.createElement(name);
  if (inCode || name === "PRE" || name === "CODE") keepClasses(source, made, CODE_CLASS);
  if (name === "TD" || name === "TH") keepClasses(source, made, CELL_CLASS);
  const start = source.getAttribute("start") ?? "";
  if (name === "OL" && /^\d{1,6}$/.test(start)) made.setAttribute("start", start);
  return made;
}

/** @param {Element} source
 * @param {Element} made
 * @param {RegExp} allowed */
function keepClasses(source, made, allowed) {
  const kept = [...source.classList].filter((name) => allowed.test(name));
  if (kept.length) made.className = kept.join(" ");
}

/** @param {Element} source */
function link(source) {
  const href = (source.getAttribute("href") ?? "").trim();
  if (!SAFE_LINK.test(href)) return null;
  return el("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" });
}

/** @param {HTMLElement} made */
function dressed(made) {
  if (made.nodeName === "PRE") return codeBlock(made);
  if (made.nodeName !== "TABLE") return made;
  return el("div", { class: "sideways", tabindex: 0, role: "group", "aria-label": "Table" }, made);
}

/** @param {HTMLElement} pre */
function codeBlock(pre) {
  const language = /language-(\S+)/.exec(`${pre.className} ${pre.firstElementChild?.className}`);
  pre.setAttribute("tabindex", "0");
  return el(
    "div",
    { class: language ? "block" : "block bald" },
    el(
      "div",
      { class: "block-head" },
      language && el("span", {}, language[1]),
      el("button", { class: "button link copy", type: "button" }, icon("copy"), el("span", {}, "Copy")),
    ),
    pre,
  );
}

/** Copy the code of the button's block, and show the result on the button.
 * @param {HTMLButtonElement} button */
export async function copyCode(button) {
  const code = button.closest(".block")?.querySelector("pre");
  const label = button.querySelector("span");
  if (!code || !label) return;
  const copied = await copy(code.textContent);
  label.textContent = copied ? "Copied" : "Not copied";
  setTimeout(() => (label.textContent = "Copy"), 1600);
}

/** @param {string} text */
async function copy(text) {
  const { clipboard } = /** @type {{ clipboard?: Clipboard }} */ (navigator);
  if (clipboard) {
    try {
      await clipboard.writeText(text);
      return true;
    } catch {
      return false; // forbidden by the browser or the user
    }
  }
  // Over plain HTTP in a local network there is no clipboard API.
  const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
