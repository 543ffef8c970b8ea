import type { RequestHandler, Response } from "express";
import type { App } from "../app.ts";
import type { Caller } from "../domain/kernel/caller.ts";
import { retryLater } from "../domain/kernel/errors.ts";
import { clientIp } from "./caller.ts";

const MIB = 1024 * 1024;
/** Maximum bytes of responses that wait for their clients to read them, of one tenant or address. */
const OWNER_MAX_BYTES = 32 * MIB;
/** The same of the whole process. */
const PROCESS_MAX_BYTES = 192 * MIB;
/** Whoever has less unread is served also when the process has too much. */
const OWNER_FREE_BYTES = MIB;
/** A connection whose client reads nothing of a complete response for this long is closed, in ms. */
const UNREAD_MS = 20_000;
/** Smaller remainders are not counted: connections with them cost more than their bytes. */
const COUNTED_MIN_BYTES = 64 * 1024;

/**
 * Bounds the memory of responses that clients do not read: beyond the limits further requests are refused,
 * and connections without progress are closed.
 */
export class UnreadResponses {
  readonly #byOwner = new Map<string, number>();
  #bytes = 0;

  /** Refuses a request while too much is unread. @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY */
  admit(owner: string): void {
    const own = this.#byOwner.get(owner) ?? 0;
    if (own < (this.#bytes < PROCESS_MAX_BYTES ? OWNER_MAX_BYTES : OWNER_FREE_BYTES)) return;
    throw retryLater("too many bytes of earlier responses have not been read yet", "SERVER_BUSY");
  }

  /** Counts what is unread of a response from its end on, and closes its connection without progress. */
  track(response: Response, owner: () => string): void {
    response.once("prefinish", () => {
      const { socket } = response;
      if (!socket) return;
      response.setTimeout(UNREAD_MS, () => void socket.destroy());
      const bytes = socket.writableLength;
      // All clients share the bytes of a fixed body.
      if (bytes < COUNTED_MIN_BYTES || response.locals["isFixed"] === true) return;
      const name = owner();
      this.#add(name, bytes);
      response.once("close", () => this.#add(name, -bytes));
    });
  }

  #add(owner: string, bytes: number): void {
    this.#bytes += bytes;
    const own = (this.#byOwner.get(owner) ?? 0) + bytes;
    if (own > 0) this.#byOwner.set(owner, own);
    else this.#byOwner.delete(owner);
  }
}

/** Key of the receiver of a response: the tenant of the credentials, otherwise the address. */
export const ownerOf = (caller: Caller | undefined, ip: string): string =>
  caller !== undefined && "tenantId" in caller ? `tenant ${caller.tenantId}` : `address ${ip}`;

/** Tracks every response, whatever route sends it. */
export const trackUnread =
  (app: App, unread: UnreadResponses): RequestHandler =>
  (request, response, next) => {
    const callerOf = () => response.locals["caller"] as Caller | undefined;
    unread.track(response, () => ownerOf(callerOf(), clientIp(app, request)));
    next();
  };
