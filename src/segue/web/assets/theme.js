// Light or dark theme, from the system or the user's choice. Runs before the page is drawn, so that
// nothing flashes; that is why it is a plain script and not a module.
(() => {
  /** @typedef {"auto" | "light" | "dark"} Choice */

  /** Each choice, with the one that follows it on the button. @type {Record<Choice, Choice>} */
  const NEXT = { auto: "light", light: "dark", dark: "auto" };
  const PAPER = { light: "#fbfaf7", dark: "#151614" };
  const root = document.documentElement;

  /** @returns {Choice} */
  function chosen() {
    try {
      const kept = localStorage.getItem("theme");
      return kept === "light" || kept === "dark" ? kept : "auto";
    } catch {
      return "auto"; // storage is refused, and not essential
    }
  }

  /** @param {Choice} choice */
  function keep(choice) {
    try {
      localStorage.setItem("theme", choice);
    } catch {
      // the choice lasts as long as the page is open
    }
  }

  /** @param {Choice} choice */
  function apply(choice) {
    root.classList.toggle("light", choice === "light");
    root.classList.toggle("dark", choice === "dark");
    for (const meta of document.querySelectorAll("meta")) {
      if (meta.name !== "theme-color") continue;
      const own = meta.media.includes("dark") ? "dark" : "light";
      meta.content = PAPER[choice === "auto" ? own : choice];
    }
  }

  let choice = chosen();
  apply(choice);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const symbol = button?.querySelector("use");
    if (!button || !symbol) return;
    const name = () => {
      button.setAttribute("aria-label", `Theme: ${choice}`);
      button.title = `Theme: ${choice}`;
      symbol.setAttribute("href", `#i-${choice}`);
    };
    name();
    button.addEventListener("click", () => {
      choice = NEXT[choice];
      keep(choice);
      apply(choice);
      name();
    });
  });
})();
