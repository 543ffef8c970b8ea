import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@mantine/spotlight/styles.css";
import "./app/app.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { ApiError } from "./api/client.ts";
import { queryClient, resume } from "./api/hooks.ts";
import { App } from "./app/app.tsx";
import { variables, theme } from "./theme.ts";

// The browser hides the attribute from scripts; the property still has it.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
// What locks scrolling behind a dialogue reads the nonce from here.
Object.assign(globalThis, { __webpack_nonce__: nonce });

// A page that was open while a new build came asks for scripts that may be gone: it loads the new ones, once.
addEventListener("vite:preloadError", () => {
  if (sessionStorage.getItem("reloaded") === location.pathname) return;
  sessionStorage.setItem("reloaded", location.pathname);
  location.reload();
});

// What the server refuses is shown where it was asked for; everything else that is caught is a mistake of the console.
const onCaughtError = (error: unknown) => error instanceof ApiError || reportError(error);

void resume();
createRoot(document.getElementById("root")!, { onCaughtError }).render(
  <MantineProvider
    theme={theme}
    cssVariablesResolver={variables}
    defaultColorScheme="auto"
    getStyleNonce={() => nonce}
  >
    <QueryClientProvider client={queryClient}>
      <Notifications position="bottom-right" />
      <Router base="/console">
        <App />
      </Router>
    </QueryClientProvider>
  </MantineProvider>,
);
