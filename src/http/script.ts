import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { RequestHandler } from "express";
import { onceLoaded } from "../domain/kernel/once-loaded.ts";
import { fixedBody, type FixedBody, sendFixed } from "./compression.ts";

const load = async (file: URL): Promise<FixedBody> => {
  const bytes = await readFile(file);
  return fixedBody(file.pathname.endsWith(".gz") ? await promisify(gunzip)(bytes) : bytes);
};

/** Sends a script, which may be stored compressed (`.gz`); it is read on the first request. */
export const sendScript = (file: () => URL): RequestHandler => {
  const bundle = onceLoaded(() => load(file()));
  return async (_request, response) => {
    const body = await bundle();
    response.type("js").set("Cache-Control", "public, max-age=3600");
    sendFixed(response, body);
  };
};
