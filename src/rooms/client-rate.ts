import { DomainError } from "../domain/kernel/errors.ts";
import type { LiveClient } from "./live-client.ts";

/** Lets each client of a room do something at most once per interval. */
export class ClientRate {
  readonly #everyMs: number;
  readonly #atMs = new WeakMap<LiveClient, number>();

  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Counts the client's wish. @returns whether it may do it now */
  take(client: LiveClient, nowMs: number): boolean {
    if (nowMs - (this.#atMs.get(client) ?? -Infinity) < this.#everyMs) return false;
    this.#atMs.set(client, nowMs);
    return true;
  }
}

/** Limits requests that read everything again for one client. */
export class ResyncRate {
  readonly #rate = new ClientRate(1_000);
  readonly #request: string;

  /** @param request the name of the message */
  constructor(request: string) {
    this.#request = request;
  }

  /** @throws DomainError RATE_LIMITED */
  take(client: LiveClient, now: Date): void {
    if (this.#rate.take(client, now.getTime())) return;
    const retry = { retryAfterSeconds: 1 };
    throw new DomainError("RATE_LIMITED", `${this.#request}: at most once a second`, retry);
  }
}
