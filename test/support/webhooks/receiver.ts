import { createHmac, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { listen } from "../http/listen.ts";

/** A request as it came, its body as bytes. */
export type Received = { path: string; headers: IncomingHttpHeaders; body: Buffer; atMs: number };
export type Receiver = {
  url: string;
  received: Received[];
  /** Requests that are not answered yet. */
  open: () => number;
  close(): Promise<void>;
};
type Answer = (response: ServerResponse, received: Received) => void;

const ok: Answer = (response) => void response.end("ok");

/** An endpoint with nothing of ours: it keeps what comes, and answers 200 unless told otherwise. */
export const startReceiver = async (answer: Answer = ok): Promise<Receiver> => {
  const received: Received[] = [];
  let open = 0;
  const server = createServer((request, response) => {
    open++;
    response.on("close", () => open--);
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { url: path = "", headers } = request;
      const one = { path, headers, body: Buffer.concat(parts), atMs: performance.now() };
      received.push(one);
      answer(response, one);
    });
  });
  const { url, close } = await listen(server);
  return { url, received, open: () => open, close };
};

const hmac = (key: Buffer | string, body: Buffer | string, encoding: "hex" | "base64"): string =>
  createHmac("sha256", key).update(body).digest(encoding);

/** Whether both signatures of a request are right, over the bytes that came; written from the documents. */
export const isSigned = ({ headers, body }: Received, secret: string): boolean => {
  if (headers["x-service-signature"] !== `sha256=${hmac(secret, body, "hex")}`) return false;
  const key = secret.startsWith("whsec_") ? Buffer.from(secret.slice(6), "base64") : secret;
  const { "webhook-id": id, "webhook-timestamp": at } = headers;
  const signed = `${String(id)}.${String(at)}.${body.toString()}`;
  const signature = `v1,${hmac(key, signed, "base64")}`;
  return String(headers["webhook-signature"]).split(" ").includes(signature);
};

export type Certificate = { key: string; cert: string };
type CertificateOptions = {
  names: readonly string[];
  from?: Date;
  until?: Date;
  /** Of an RSA key; default: a key on P-256. */
  rsaBits?: number;
};

const der = (tag: number, ...parts: readonly Buffer[]): Buffer => {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
};
const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, ...parts);
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, "hex"));
const time = (at: Date): Buffer =>
  der(0x18, Buffer.from(`${at.toISOString().replaceAll(/[-:T]/g, "").slice(0, 14)}Z`));

const ECDSA_WITH_SHA256 = sequence(oid("2a8648ce3d040302"));
const RSA_WITH_SHA256 = sequence(oid("2a864886f70d01010b"), der(0x05));
const DAY_MS = 86_400_000;

/** A certificate for these names that signs itself: whoever trusts it trusts the names. PEM. */
export const selfSigned = ({
  names,
  from = new Date(Date.now() - DAY_MS),
  until = new Date(Date.now() + DAY_MS),
  rsaBits,
}: CertificateOptions): Certificate => {
  const { privateKey, publicKey } =
    rsaBits === undefined
      ? generateKeyPairSync("ec", { namedCurve: "P-256" })
      : generateKeyPairSync("rsa", { modulusLength: rsaBits });
  const algorithm = rsaBits === undefined ? ECDSA_WITH_SHA256 : RSA_WITH_SHA256;
  const commonName = sequence(oid("550403"), der(0x0c, Buffer.from(names[0] ?? "")));
  const subject = sequence(der(0x31, commonName));
  const alternatives = sequence(...names.map((name) => der(0x82, Buffer.from(name))));
  const extensions = sequence(sequence(oid("551d11"), der(0x04, alternatives)));
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    subject,
    sequence(time(from), time(until)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, extensions),
  );
  const signature = der(0x03, Buffer.from([0]), sign("sha256", content, privateKey));
  const base64 = sequence(content, algorithm, signature).toString("base64");
  const lines = base64.replaceAll(/(.{64})/g, "$1\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
};
