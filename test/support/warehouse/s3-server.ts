import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { SignatureV4 } from "@smithy/signature-v4";
import type { S3Settings } from "../../../src/config/sections.ts";
import { listen } from "../http/listen.ts";
import { temporaryDir } from "../processes/process.ts";

type Server = { run(): Promise<{ port: number }>; close(): Promise<void> };

/** An S3 server of this machine, with one bucket, and the settings for it. */
export type S3Server = { settings: S3Settings; port: number; root: string; stop(): Promise<void> };

const BUCKET = "warehouse";
const REGION = "eu-west-9";
/** The one key of s3rver. */
const KEY = "S3RVER";
const SECRET = "secret-of-the-test-s3";

/** A hash as the signer wants it. */
class Sha256 {
  readonly #hash;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash =
      secret === undefined
        ? createHash("sha256")
        : createHmac("sha256", secret as string | NodeJS.ArrayBufferView);
  }
  update(data: Uint8Array): void {
    this.#hash.update(data);
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }
  reset(): void {
    throw new Error("a hash is of one text");
  }
}

/** AWS's own signer, which knows nothing of how Laurel signs. */
const signer = new SignatureV4({
  credentials: { accessKeyId: KEY, secretAccessKey: SECRET },
  region: REGION,
  service: "s3",
  sha256: Sha256,
  uriEscapePath: false,
  applyChecksum: false,
});

const encoded = (path: string): string =>
  decodeURIComponent(path)
    .split("/")
    .map((part) =>
      encodeURIComponent(part).replaceAll(
        /[!'()*]/g,
        (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
      ),
    )
    .join("/");

/** Returns the error with which S3 refuses a request; undefined: its signature and its hash hold. */
const refusalOf = async (
  { method, url, headers }: IncomingMessage,
  body: Buffer,
): Promise<string | undefined> => {
  const { authorization = "", "x-amz-content-sha256": hash, "x-amz-date": date } = headers;
  const [, keyId] = /Credential=([^/]+)\//.exec(authorization) ?? [];
  if (keyId !== KEY) return "InvalidAccessKeyId";
  if (createHash("sha256").update(body).digest("hex") !== hash) return "XAmzContentSHA256Mismatch";
  const [, signed = ""] = /SignedHeaders=([^,]+)/.exec(authorization) ?? [];
  const own = signed.split(";").map((name) => [name, String(headers[name])]);
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(date)) ?? [];
  const { headers: expected } = await signer.sign(
    {
      method: method!,
      protocol: "http:",
      hostname: "127.0.0.1",
      path: encoded(url!),
      query: {},
      headers: Object.fromEntries(own) as Record<string, string>,
    },
    { signingDate: new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`) },
  );
  const signatureOf = (text: string | undefined): string | undefined =>
    /Signature=(\w+)/.exec(text ?? "")?.[1];
  return signatureOf(expected["authorization"]) === signatureOf(authorization)
    ? undefined
    : "SignatureDoesNotMatch";
};

const bodyOf = async (message: IncomingMessage): Promise<Buffer> => {
  const parts: Buffer[] = [];
  for await (const part of message as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts);
};

/** Passes a request on to s3rver. */
const pass = async (
  { incoming, body, port }: { incoming: IncomingMessage; body: Buffer; port: number },
  response: ServerResponse,
): Promise<void> => {
  const { method, url, headers } = incoming;
  // Its own check of signatures knows an older kind alone.
  const { authorization: _own, ...rest } = headers;
  const upstream = request({ host: "127.0.0.1", port, method, path: url, headers: rest }).end(body);
  const [answer] = (await once(upstream, "response")) as [IncomingMessage];
  response.writeHead(answer.statusCode!, answer.headers);
  answer.pipe(response);
};

/**
 * Starts an S3 server: s3rver, which keeps objects, behind a check of signatures (V4) and of the hashes of
 * bodies by AWS's own signer.
 */
export const startS3Server = async (): Promise<S3Server> => {
  const S3rver = createRequire(import.meta.url)("s3rver") as new (options: object) => Server;
  const dir = await temporaryDir();
  const objects = new S3rver({
    address: "127.0.0.1",
    port: 0,
    silent: true,
    directory: dir.path,
    allowMismatchedSignatures: true,
    configureBuckets: [{ name: BUCKET, configs: [] }],
  });
  const { port: behind } = await objects.run();
  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bodyOf(incoming);
    const refusal = await refusalOf(incoming, body);
    if (refusal === undefined) return pass({ incoming, body, port: behind }, response);
    response.writeHead(403).end(`<?xml version="1.0"?><Error><Code>${refusal}</Code></Error>`);
  };
  const server = createServer((incoming, response) => void answer(incoming, response));
  const { url, port, close } = await listen(server);
  return {
    port,
    root: dir.path,
    settings: {
      kind: "s3",
      bucket: BUCKET,
      prefix: "laurel/",
      endpoint: url,
      region: REGION,
      accessKeyId: KEY,
      secretAccessKey: SECRET,
    },
    stop: async () => {
      await close();
      await objects.close();
      await dir.remove();
    },
  };
};
