// Sets the colours before the first paint; inline, the content security policy would refuse it.
const chosen = localStorage.getItem("mantine-color-scheme-value");
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
const scheme = chosen === "dark" || (chosen !== "light" && isDark) ? "dark" : "light";
document.documentElement.setAttribute("data-mantine-color-scheme", scheme);
