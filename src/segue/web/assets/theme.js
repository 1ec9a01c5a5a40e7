// Light or dark theme, from the system or the user's choice. Runs before the page is drawn, so that
// nothing flashes; that is why it is a plain script and not a module.
(() => {
  const CHOICES = ["auto", "light", "dark"];
  const PAPER = { light: "#fbfaf7", dark: "#151614" };
  const root = document.documentElement;

  function chosen() {
    try {
      const kept = localStorage.getItem("theme");
      return CHOICES.includes(kept) ? kept : "auto";
    } catch {
      return "auto"; // storage is refused, and not essential
    }
  }

  function keep(choice) {
    try {
      localStorage.setItem("theme", choice);
    } catch {
      // the choice lasts as long as the page is open
    }
  }

  function apply(choice) {
    root.classList.toggle("light", choice === "light");
    root.classList.toggle("dark", choice === "dark");
    for (const meta of document.querySelectorAll('meta[name="theme-color"]')) {
      const own = meta.media.includes("dark") ? "dark" : "light";
      meta.content = PAPER[choice] ?? PAPER[own];
    }
  }

  let choice = chosen();
  apply(choice);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => {
      button.setAttribute("aria-label", `Theme: ${choice}`);
      button.title = `Theme: ${choice}`;
      button.querySelector("use").setAttribute("href", `#i-${choice}`);
    };
    name();
    button.addEventListener("click", () => {
      choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
      keep(choice);
      apply(choice);
      name();
    });
  });
})();
