import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type TransportOptions, WebSocketTransport } from "@colyseus/ws-transport";
import type { WebSocket } from "ws";
import type { App } from "../app.ts";
import { FramedSocket } from "./framed-socket.ts";
import { HEARTBEAT_SECONDS } from "./messages.ts";

/** The largest message of a client. */
export const MESSAGE_MAX_BYTES = 16 * 1024;
/** Sockets of one process, those that it pipes to others not counted. */
export const SOCKETS_MAX = 20_000;
const PINGS_MISSED_MAX = 2;
/** A client that does not answer a close is cut off after this. */
const CLOSE_TIMEOUT_MS = 2_000;

/** Close codes that are counted by themselves; clients may send any. */
const COUNTED = new Set([1000, 1001, 1005, 1006, 1009, 4000, 4001, 4002, 4003, 4013, 4401, 4403]);

/** Answers an upgrade that is not taken, and closes the socket. */
export const refuseUpgrade = (socket: Duplex, status: number): void => {
  socket.on("error", () => socket.destroy());
  socket.resume();
  const retry = status === 503 ? "Retry-After: 1\r\n" : "";
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${retry}`;
  socket.end(`${head}Connection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy());
};

/** Core's sockets, taken one by one from whichever server they came to. */
export class Sockets extends WebSocketTransport {
  readonly #app: App;

  constructor(app: App) {
    super({
      noServer: true,
      maxPayload: MESSAGE_MAX_BYTES,
      WebSocket: FramedSocket,
      closeTimeout: CLOSE_TIMEOUT_MS,
    } as TransportOptions);
    this.#app = app;
    this.autoTerminateUnresponsiveClients(HEARTBEAT_SECONDS * 1_000, PINGS_MISSED_MAX);
  }

  get size(): number {
    return this.wss.clients.size;
  }

  /** Completes the handshake; a seat that is not there is told over the socket, as the SDK wants it. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (this.size >= SOCKETS_MAX) return refuseUpgrade(socket, 503);
    this.wss.handleUpgrade(request, socket, head, (opened: WebSocket) => {
      opened.on("close", (code: number) => {
        this.#app.metrics.socketCloses.inc({ code: COUNTED.has(code) ? String(code) : "other" });
      });
      this.wss.emit("connection", opened, request);
    });
  }

  override shutdown(): void {
    clearInterval(this.pingInterval);
    for (const socket of this.wss.clients) socket.terminate();
    this.wss.close();
  }
}
