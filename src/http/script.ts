import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { RequestHandler } from "express";

type Bundle = { plain: Buffer; packed: Buffer };

const load = async (file: () => URL): Promise<Bundle> => {
  const plain = await readFile(file());
  return { plain, packed: await promisify(gzip)(plain) };
};

/** Sends a script of an installed package, read and compressed on the first request. */
export const sendScript = (file: () => URL): RequestHandler => {
  let bundle: Promise<Bundle> | undefined;
  return async (request, response) => {
    bundle ??= load(file);
    const { plain, packed } = await bundle;
    response.type("js").set({ "Cache-Control": "public, max-age=3600", Vary: "Accept-Encoding" });
    if (request.acceptsEncodings("gzip") === "gzip") response.set("Content-Encoding", "gzip").send(packed);
    else response.send(plain);
  };
};
