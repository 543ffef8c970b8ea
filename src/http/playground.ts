import { readFile } from "node:fs/promises";
import type { RequestHandler } from "express";
import { sendScript } from "./docs.ts";

/** Nothing from another host and nothing inline; it calls this server alone. */
const CONTENT_SECURITY_POLICY = [
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
    response.set("Content-Security-Policy", CONTENT_SECURITY_POLICY).type(type).send(text);
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
