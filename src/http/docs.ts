import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { RequestHandler } from "express";

/**
 * Nothing from another host, no inline script. The reference draws itself with style elements and attributes,
 * which is why styles may be inline; its request console speaks to this server alone.
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

/** Everything that would speak to another host is off. */
const OPTIONS = {
  url: "/openapi.json",
  proxyUrl: "",
  telemetry: false,
  withDefaultFonts: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: "never",
};

const START = `Scalar.createApiReference("#reference", ${JSON.stringify(OPTIONS)});\n`;

/** The bundle of the installed package, compressed on the first request: 4 MB become 1. */
const loadBundle = async (): Promise<{ plain: Buffer; packed: Buffer }> => {
  const main = import.meta.resolve("@scalar/api-reference");
  const plain = await readFile(new URL("./browser/standalone.js", main));
  return { plain, packed: await promisify(gzip)(plain) };
};
let bundle: ReturnType<typeof loadBundle> | undefined;

const sendBundle: RequestHandler = async (request, response) => {
  bundle ??= loadBundle();
  const { plain, packed } = await bundle;
  response.type("js").set({ "Cache-Control": "public, max-age=3600", Vary: "Accept-Encoding" });
  if (request.acceptsEncodings("gzip") === "gzip") response.set("Content-Encoding", "gzip").send(packed);
  else response.send(plain);
};

/** The API reference at /docs, by its paths. */
export const docs: Record<string, RequestHandler> = {
  "/docs": (_request, response) => {
    response.set({ "Content-Security-Policy": CONTENT_SECURITY_POLICY, "Referrer-Policy": "no-referrer" });
    response.type("html").send(PAGE);
  },
  "/docs/scalar.js": sendBundle,
  "/docs/start.js": (_request, response) => void response.type("js").send(START),
};
