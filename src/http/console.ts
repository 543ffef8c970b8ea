import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import type { RequestHandler, Response } from "express";
import type { App } from "../app.ts";
import { createSizedCache } from "../domain/kernel/caches.ts";
import { notFound } from "../domain/kernel/errors.ts";
import { fixedBody, type FixedBody, sendFixed } from "./compression.ts";
import { customHostOf } from "./pin.ts";

/** Nothing from another host and nothing inline, but style elements that know the view's nonce. */
const contentSecurityPolicy = (nonce: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "connect-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; ");

const FOREVER = "public, max-age=31536000, immutable";
/** Bytes of assets in memory, as they are and compressed. */
const ASSETS_MAX = { items: 500, bytes: 32 * 1024 * 1024 };
/** How often a browser looks whether a build is done, in seconds. */
const BUILDING_SECONDS = 2;

/** One plain file of a folder: no path leads out of it, and what begins with a dot is none. */
const FILE = /^[\w-]+(\.[\w-]+)+$/;

/** What a file system says of a name that no file has; ENAMETOOLONG: that none may have. */
const MISSING: ReadonlySet<unknown> = new Set(["ENOENT", "ENAMETOOLONG"]);

const missing = (error: unknown): undefined => {
  if (error instanceof Error && "code" in error && MISSING.has(error.code)) return undefined;
  throw error;
};

const messagePage = (head: string, body: string): string =>
  `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8" />${head}<title>Laurel</title></head>
  <body>${body}</body>
</html>
`;

/** Says why there is no console, with what to do about it. */
const sendMissing = ({ config }: App, response: Response): void => {
  response.status(503).type("html");
  if (!config.isConsoleBuilt) {
    const command =
      "<h1>The console is not built</h1><p>Build it in the folder of the code: <code>npm run console</code></p>";
    return void response.send(messagePage("", command));
  }
  response.set("Retry-After", String(BUILDING_SECONDS));
  const text =
    "<h1>The console is being built</h1><p>This takes up to a minute after a change of its sources. If it takes " +
    "longer, the output of the server says why, and <code>npm run console</code> tries again.</p>";
  response.send(messagePage(`<meta http-equiv="refresh" content="${BUILDING_SECONDS}" />`, text));
};

/** Answers every page of the console: which one it is, the script in it reads from the address. */
const sendPage = async (app: App, response: Response): Promise<void> => {
  const nonce = randomBytes(16).toString("base64url");
  response.set("Content-Security-Policy", contentSecurityPolicy(nonce));
  // Read anew, since a build may have ended meanwhile.
  const template = await readFile(join(app.config.consoleDir, "index.html"), "utf8").catch(missing);
  if (template === undefined) return sendMissing(app, response);
  response.type("html").send(template.replaceAll("__NONCE__", nonce));
};

/** Answers a file whose name says its content, from this build or the one before; never a page. */
const asset = ({ config }: App): RequestHandler => {
  const cache = createSizedCache<FixedBody>(ASSETS_MAX);
  const load = async (name: string): Promise<FixedBody | undefined> => {
    const plain = await readFile(join(config.consoleDir, "assets", name)).catch(missing);
    if (!plain) return undefined;
    const body = await fixedBody(plain);
    return cache.keep(name, body, { owner: name, bytes: plain.length + body.packed.length });
  };
  return async (request, response) => {
    const name = String(request.params["name"]);
    const body = FILE.test(name) ? (cache.get(name) ?? (await load(name))) : undefined;
    if (!body) throw notFound("Page");
    response.type(extname(name)).set("Cache-Control", FOREVER);
    sendFixed(response, body);
  };
};

/** Answers a file beside the pages, such as the icon, or a page, whose name has no dot. */
const fileOrPage =
  (app: App): RequestHandler =>
  async (request, response) => {
    const name = String(request.params["name"]);
    if (!name.includes(".")) return sendPage(app, response);
    const isFile = FILE.test(name) && name !== "index.html";
    const plain = isFile ? await readFile(join(app.config.consoleDir, name)).catch(missing) : undefined;
    if (!plain) throw notFound("Page");
    response.type(extname(name)).set("Cache-Control", "no-cache");
    sendFixed(response, await fixedBody(plain));
  };

const isHere =
  (handler: RequestHandler): RequestHandler =>
  (request, response, next) => {
    if (customHostOf(response)) throw notFound("Page");
    return handler(request, response, next);
  };

const noPage: RequestHandler = () => {
  throw notFound("Page");
};

/** Handlers of the console for browsers, by path; custom domains, which are for programs, have none. */
export const consolePages = (app: App): Record<string, RequestHandler> => {
  const page: RequestHandler = (_request, response) => sendPage(app, response);
  return {
    "/console": isHere(page),
    "/console/assets/:name": isHere(asset(app)),
    "/console/assets{/*path}": noPage,
    "/console/:name": isHere(fileOrPage(app)),
    "/console/*path": isHere(page),
  };
};
