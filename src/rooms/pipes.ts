import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { App } from "../app.ts";
import { HEARTBEAT_SECONDS } from "./messages.ts";
import { refuseUpgrade } from "./sockets.ts";

/** Maximum number of sockets that one process pipes to rooms of others. */
export const PIPES_MAX = 20_000;
const CONNECT_TIMEOUT_MS = 2_000;
/** The other process sends a heartbeat at least three times as often. */
const SILENCE_MAX_MS = 3 * HEARTBEAT_SECONDS * 1_000;
/** Time for a client to read the rest after its room has closed; unread data is lost then. */
const FLUSH_MAX_MS = 2_000;

/** Authenticates one process of an installation to another. */
const PASS_HEADER = "x-laurel-pass";

const passOf = (key: string, processId: string): Buffer =>
  createHmac("sha256", key).update(`door:${processId}`).digest();

/**
 * Whether an upgrade at the internal address of `processId` comes from a process of this installation. Any
 * configured encryption key is valid, so that keys can be rotated while processes run.
 */
export const hasPass = ({ config }: App, { headers }: IncomingMessage, processId: string): boolean => {
  const given = Buffer.from(String(headers[PASS_HEADER] ?? ""), "base64url");
  return config.secrets.encryptionKeys.some((key) => {
    const expected = passOf(key, processId);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
};

const headOf = (request: IncomingMessage, pass: Buffer): string => {
  const lines = [`GET ${request.url} HTTP/1.1`, `${PASS_HEADER}: ${pass.toString("base64url")}`];
  for (let i = 0; i < request.rawHeaders.length; i += 2) {
    const [name, value] = [request.rawHeaders[i]!, request.rawHeaders[i + 1]!];
    if (name.toLowerCase() !== PASS_HEADER) lines.push(`${name}: ${value}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
};

type Pipe = { processId: string; room: Socket; bytesRead: number; close(): void };
type Target = { processId: string; internalAddress: string };

/**
 * Forwards sockets byte for byte to rooms held by other processes. A slow reader slows the other side down,
 * so the buffered data is bounded by the buffers of four sockets.
 */
export class Pipes {
  readonly #app: App;
  readonly #open = new Set<Pipe>();
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;

  constructor(app: App) {
    this.#app = app;
    this.#timer = setInterval(() => this.#dropSilent(), SILENCE_MAX_MS).unref();
  }

  get size(): number {
    return this.#open.size;
  }

  /** Forwards an upgrade to the internal address of the process that holds its room. */
  open(target: Target, request: IncomingMessage, client: Duplex, head: Buffer): void {
    if (this.#isClosed || this.size >= PIPES_MAX) return refuseUpgrade(client, 503);
    const colon = target.internalAddress.lastIndexOf(":");
    const room = connect(
      Number(target.internalAddress.slice(colon + 1)),
      target.internalAddress.slice(0, colon),
    );
    const pipe: Pipe = {
      processId: target.processId,
      room,
      bytesRead: 0,
      close: () => {
        room.destroy();
        client.destroy();
      },
    };
    this.#open.add(pipe);
    room.setTimeout(CONNECT_TIMEOUT_MS, pipe.close);
    room.once("connect", () => {
      room.setTimeout(0);
      for (const socket of [room, client as Socket])
        socket.setNoDelay(true).setKeepAlive(true, SILENCE_MAX_MS);
      room.write(headOf(request, passOf(this.#app.config.secrets.encryptionKeys.at(-1)!, target.processId)));
      if (head.length > 0) room.write(head);
      room.pipe(client).pipe(room);
    });
    this.#endTogether(pipe, client);
  }

  /** Ends the pipes to a process that has died. */
  cut(processId: string): void {
    for (const pipe of this.#open) if (pipe.processId === processId) pipe.close();
  }

  /** Ends all pipes, and opens no more. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    for (const pipe of this.#open) pipe.close();
  }

  #endTogether(pipe: Pipe, client: Duplex): void {
    const { room } = pipe;
    room.on("error", pipe.close);
    client.on("error", pipe.close);
    client.once("close", () => room.destroy());
    room.once("close", () => {
      this.#open.delete(pipe);
      // The close code of the room is still on its way to the client.
      client.end();
      setTimeout(() => client.destroy(), FLUSH_MAX_MS).unref();
    });
  }

  /** A peer machine may vanish without closing its connections. */
  #dropSilent(): void {
    for (const pipe of this.#open) {
      if (pipe.room.bytesRead === pipe.bytesRead) pipe.close();
      else pipe.bytesRead = pipe.room.bytesRead;
    }
  }
}
