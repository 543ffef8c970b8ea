import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

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
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    open: () => open,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
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
