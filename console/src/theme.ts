import { createTheme, type CSSVariablesResolver } from "@mantine/core";

/** Colours are chosen so that every text has the contrast that WCAG AA asks for, on light and on dark. */
export const theme = createTheme({
  primaryColor: "teal",
  primaryShade: { light: 9, dark: 9 },
  defaultRadius: "sm",
  fontFamily: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif",
  cursorType: "pointer",
  components: {
    Badge: { defaultProps: { tt: "none", variant: "light", radius: "sm", miw: "max-content" } },
    Text: { defaultProps: { size: "sm" } },
    Tooltip: { defaultProps: { openDelay: 300 } },
    Button: { defaultProps: { size: "sm" } },
    Table: { defaultProps: { verticalSpacing: 6, horizontalSpacing: "sm" } },
    Modal: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
  },
});

export const variables: CSSVariablesResolver = ({ colors }) => {
  const both: Record<string, string> = {
    "--mantine-color-dimmed": "light-dark(#5c636a, #a6a7ab)",
    "--mantine-color-placeholder": "light-dark(#6b7278, #9a9ca1)",
    "--mantine-color-error": "light-dark(#c92a2a, #ff8787)",
    "--mantine-color-anchor": "light-dark(#087f5b, #63e6be)",
  };
  for (const colour of Object.keys(colors)) {
    const of = `var(--mantine-color-${colour}`;
    // Yellow on yellow needs a darker one.
    const light = `color-mix(in srgb, ${of}-9) ${colour === "yellow" ? 65 : 80}%, black)`;
    both[`--mantine-color-${colour}-light-color`] = `light-dark(${light}, ${of}-2))`;
  }
  return { variables: {}, light: both, dark: both };
};
