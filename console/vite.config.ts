import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The server sends a strict content security policy: nothing inline, nothing from another host.
export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // Stated for what is shown first; the forms and rooms come when somebody opens them.
    chunkSizeWarningLimit: 400,
    emptyOutDir: true,
  },
});
