import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { Certificate } from "./receiver.ts";

/** A request as its bytes came. */
export type RawRequest = {
  line: string;
  /** Names in lower case. */
  headers: Record<string, string>;
  body: string;
};
/** Says whatever bytes it likes; `count` is the number of this request, from 1. */
export type Respond = (socket: Socket, request: RawRequest, count: number) => void;

export type RawEndpoint = {
  host: string;
  port: number;
  /** Connections that were ever made to it. */
  connections: number;
  /** Those that are there now. */
  open: Set<Socket>;
  requests: RawRequest[];
  close(): Promise<void>;
};

export const answer = (body = "ok", headers = "", status = "200 OK"): string =>
  `HTTP/1.1 ${status}\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

const readRequests = (socket: Socket, onRequest: (request: RawRequest) => void): void => {
  let text = "";
  socket.on("data", (part: Buffer) => {
    text += part.toString("latin1");
    for (;;) {
      const end = text.indexOf("\r\n\r\n");
      if (end < 0) return;
      const [line = "", ...lines] = text.slice(0, end).split("\r\n");
      const headers = Object.fromEntries(
        lines.map((one) => [one.slice(0, one.indexOf(":")).toLowerCase(), one.slice(one.indexOf(":") + 2)]),
      );
      const length = Number(headers["content-length"] ?? 0);
      if (text.length < end + 4 + length) return;
      const body = Buffer.from(text.slice(end + 4, end + 4 + length), "latin1").toString();
      text = text.slice(end + 4 + length);
      onRequest({ line, headers, body });
    }
  });
};

/** An endpoint of bare sockets, which may break any rule of HTTP, on a free port of this machine. */
export const startRawEndpoint = async (
  respond: Respond = (socket) => void socket.write(answer()),
  { host = "127.0.0.1", certificate }: { host?: string; certificate?: Certificate } = {},
): Promise<RawEndpoint> => {
  const talk = (socket: Socket): void => {
    socket.on("error", () => undefined);
    readRequests(socket, (request) => {
      endpoint.requests.push(request);
      respond(socket, request, endpoint.requests.length);
    });
  };
  const server: Server = certificate ? createTlsServer(certificate, talk) : createServer(talk);
  server.on("tlsClientError", () => undefined);
  server.on("connection", (socket: Socket) => {
    endpoint.connections += 1;
    endpoint.open.add(socket);
    socket.on("error", () => undefined).once("close", () => endpoint.open.delete(socket));
  });
  server.listen(0, host);
  await once(server, "listening");
  const endpoint: RawEndpoint = {
    host,
    port: (server.address() as AddressInfo).port,
    connections: 0,
    open: new Set(),
    requests: [],
    close: async () => {
      for (const socket of endpoint.open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
  return endpoint;
};

/** Runs `work` and counts the TCP connections that this process begins meanwhile, wherever they go. */
export const connectionsBegunBy = async (work: () => Promise<unknown>): Promise<number> => {
  let begun = 0;
  const count = (): void => void (begun += 1);
  subscribe("net.client.socket", count);
  try {
    await work();
  } finally {
    unsubscribe("net.client.socket", count);
  }
  return begun;
};
