import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { rootCertificates } from "node:tls";
import { Agent, request } from "undici";
import type { AcmeSettings } from "../config/sections.ts";
import { within } from "./within.ts";

const TIMEOUT_MS = 8_000;
const DIRECTORY_MAX_BYTES = 65_536;
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Returns the authorities that a directory is checked by. @throws Error that says what the file lacks */
export const readAuthorities = async (caFile: string): Promise<string[]> => {
  const blocks = (await readFile(caFile, "utf8")).match(BLOCK) ?? [];
  if (blocks.length === 0) throw new Error("it has no certificate in PEM");
  return [...rootCertificates, ...blocks.map((block) => new X509Certificate(block).toString())];
};

const readDirectory = async (url: string, dispatcher: Agent): Promise<Record<string, unknown> | null> => {
  const { statusCode, body } = await request(url, { dispatcher });
  if (statusCode !== 200) throw new Error(`it answers ${statusCode}`);
  return (await body.json()) as Record<string, unknown> | null;
};

/** Asks an authority for its directory (RFC 8555, section 7.1.1). @throws Error that says why not */
export const checkDirectory = async (
  { directoryUrl }: AcmeSettings,
  authorities: readonly string[] | undefined,
): Promise<void> => {
  const connect = authorities ? { ca: [...authorities] } : {};
  const agent = new Agent({ connect, maxResponseSize: DIRECTORY_MAX_BYTES });
  try {
    // The library heeds a signal only once a connection is there.
    const directory = await within(TIMEOUT_MS, readDirectory(directoryUrl, agent));
    if (typeof directory?.["newOrder"] !== "string") throw new Error("it is no authority's directory");
  } finally {
    await agent.destroy();
  }
};
