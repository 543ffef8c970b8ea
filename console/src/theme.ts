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
    Drawer: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
  },
});

export const variables: CSSVariablesResolver = ({ colors }) => {
  const light: Record<string, string> = {
    "--mantine-color-dimmed": "#5c636a",
    "--mantine-color-placeholder": "#6b7278",
    "--mantine-color-error": "#c92a2a",
    "--mantine-color-anchor": "#087f5b",
  };
  const dark: Record<string, string> = {
    "--mantine-color-dimmed": "#a6a7ab",
    "--mantine-color-placeholder": "#9a9ca1",
    "--mantine-color-error": "#ff8787",
    "--mantine-color-anchor": "#63e6be",
  };
  for (const colour of Object.keys(colors)) {
    // Yellow on yellow needs a darker one.
    const share = colour === "yellow" ? 65 : 80;
    light[`--mantine-color-${colour}-light-color`] =
      `color-mix(in srgb, var(--mantine-color-${colour}-9) ${share}%, black)`;
    dark[`--mantine-color-${colour}-light-color`] = `var(--mantine-color-${colour}-2)`;
  }
  return { variables: {}, light, dark };
};
