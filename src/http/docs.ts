import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { RequestHandler } from "express";
import { onceLoaded } from "../domain/kernel/flights.ts";
import { fixedBody, type FixedBody, sendFixed } from "./compression.ts";

const load = async (file: URL): Promise<FixedBody> => {
  const bytes = await readFile(file);
  return fixedBody(file.pathname.endsWith(".gz") ? await promisify(gunzip)(bytes) : bytes);
};

/** Sends a script, which may be stored compressed (`.gz`); it is read on the first request. */
const sendScript = (file: () => URL): RequestHandler => {
  const bundle = onceLoaded(() => load(file()));
  return async (_request, response) => {
    const body = await bundle();
    response.type("js").set("Cache-Control", "public, max-age=3600");
    sendFixed(response, body);
  };
};

/**
 * Nothing from another host, no inline script. The reference renders itself with style elements and
 * attributes, which is why inline styles are allowed; its request console calls this server alone.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "worker-src 'self' blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <link rel="icon" href="data:," />
    <title>Laurel API reference</title>
  </head>
  <body>
    <div id="reference"></div>
    <noscript>The reference needs JavaScript; <a href="/openapi.json">openapi.json</a> does not.</noscript>
    <script src="/docs/scalar.js"></script>
    <script src="/docs/start.js"></script>
  </body>
</html>
`;

/** Disables everything that would contact another host. */
const OPTIONS = {
  url: "/openapi.json",
  // Whatever address the page was opened at: the policy above forbids calls of another.
  servers: [{ url: "/api/v1" }],
  proxyUrl: "",
  telemetry: false,
  withDefaultFonts: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: "never",
};

const START = `Scalar.createApiReference("#reference", ${JSON.stringify(OPTIONS)});\n`;

/** Handlers of the API reference at /docs, by path. */
export const docs: Record<string, RequestHandler> = {
  "/docs": (_request, response) => {
    response.set({ "Content-Security-Policy": CONTENT_SECURITY_POLICY, "Referrer-Policy": "no-referrer" });
    response.type("html").send(PAGE);
  },
  // One file of a package that, with what it needs, weighs 150 MB: reference/README.md.
  "/docs/scalar.js": sendScript(() => new URL("./reference/scalar.js.gz", import.meta.url)),
  "/docs/start.js": (_request, response) => void response.type("js").send(START),
};

/** Nothing from another host and nothing inline; it calls this server alone. */
const PLAYGROUND_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const sendOwn =
  (name: string, type: string): RequestHandler =>
  async (_request, response) => {
    const text = await readFile(new URL(`./playground/${name}`, import.meta.url), "utf8");
    response.set("Content-Security-Policy", PLAYGROUND_POLICY).type(type).send(text);
  };

/** A page for developers that joins rooms with the rights of a given token, by path. */
export const playground: Record<string, RequestHandler> = {
  "/playground": sendOwn("page.html", "html"),
  "/playground/style.css": sendOwn("style.css", "css"),
  "/playground/start.js": sendOwn("start.js", "js"),
  "/playground/colyseus.js": sendScript(
    () => new URL("../dist/colyseus.js", import.meta.resolve("@colyseus/sdk")),
  ),
};
