// What the agent and the person wrote, as elements. The server has cleaned it already; this is the
// second line of defence: nothing is taken over but what is listed here, and each element is made
// anew, so that what is not listed cannot come along.

import { el, icon } from "./dom.js";

const XHTML = "http://www.w3.org/1999/xhtml";
const KEPT = new Set(
  ("A B BLOCKQUOTE BR CODE DEL DIV EM HR I LI OL P PRE S SPAN STRONG SUB SUP" +
    " TABLE TBODY TD TH THEAD TR UL").split(" "),
);
/** Left out with all that is in them; of anything else that is not kept, the text stays. */
const LEFT_OUT = new Set(
  ("APPLET AUDIO BUTTON CANVAS EMBED FORM FRAME FRAMESET IFRAME INPUT NOEMBED NOFRAMES NOSCRIPT" +
    " OBJECT SCRIPT SELECT STYLE TEMPLATE TEXTAREA TITLE VIDEO").split(" "),
);
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
/** Pygments' short names, and the language of a block. */
const CODE_CLASS = /^(hl|[a-z][a-z0-9]{0,2}|language-[\w+#.-]{1,30})$/;
const CELL_CLASS = /^align-(left|center|right)$/;

/** What the page shows for a piece of HTML from the server. */
export function prose(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const fragment = document.createDocumentFragment();
  take(parsed.body, fragment, false);
  return fragment;
}

/** The same as text, to be spoken. */
export const words = (html) =>
  new DOMParser().parseFromString(html, "text/html").body.textContent.trim();

function take(from, to, inCode) {
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) to.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE) takeElement(child, to, inCode);
  }
}

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

function counterpart(source, name, inCode) {
  // One level for all: a message has no say in how the page is divided.
  if (/^H[1-6]$/.test(name)) return el("h2", { class: `heading-${name[1]}` });
  if (!KEPT.has(name)) return null;
  if (name === "A") return link(source);
  const made = el(name);
  if (inCode || name === "PRE" || name === "CODE") keepClasses(source, made, CODE_CLASS);
  if (name === "TD" || name === "TH") keepClasses(source, made, CELL_CLASS);
  if (name === "OL" && /^\d{1,6}$/.test(source.getAttribute("start") ?? "")) {
    made.setAttribute("start", source.getAttribute("start"));
  }
  return made;
}

function keepClasses(source, made, allowed) {
  const kept = [...source.classList].filter((name) => allowed.test(name));
  if (kept.length) made.className = kept.join(" ");
}

function link(source) {
  const href = (source.getAttribute("href") ?? "").trim();
  if (!SAFE_LINK.test(href)) return null;
  return el("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" });
}

function dressed(made) {
  if (made.nodeName === "PRE") return codeBlock(made);
  if (made.nodeName !== "TABLE") return made;
  return el("div", { class: "sideways", tabindex: 0, role: "group", "aria-label": "Table" }, made);
}

function codeBlock(pre) {
  const language = /language-(\S+)/.exec(`${pre.className} ${pre.firstElementChild?.className}`);
  pre.setAttribute("tabindex", 0);
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

/** Copies the code of the block whose button was pressed, and says so on the button. */
export async function copyCode(button) {
  const text = button.closest(".block").querySelector("pre").textContent;
  const label = button.querySelector("span");
  const copied = await copy(text);
  label.textContent = copied ? "Copied" : "Not copied";
  setTimeout(() => (label.textContent = "Copy"), 1600);
}

async function copy(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false; // the browser or the person does not allow it
    }
  }
  // Over plain HTTP in the local network there is no clipboard, but there is this.
  const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
