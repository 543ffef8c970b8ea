import type { Caller } from "../domain/kernel/caller.ts";
import { retryLater } from "../domain/kernel/errors.ts";
import { ownerOf } from "./unread.ts";

const MIB = 1024 * 1024;
/** Maximum bytes of parsed bodies in memory at once, of one tenant. */
const TENANT_MAX_BYTES = 96 * MIB;
/** The same of all tenants of the process, and of all callers that are no tenant's. */
const TENANTS_MAX_BYTES = 256 * MIB;
const OUTSIDERS_MAX_BYTES = 32 * MIB;
/** Whoever has less in memory is served also when all have too much. */
const TENANT_FREE_BYTES = 8 * MIB;
const OUTSIDER_FREE_BYTES = 256 * 1024;
/** Estimated bytes of a name or value in parsed JSON, with what validation copies of it. */
const PART_BYTES = 100;
/** Largest factor by which gzip (RFC 1951) packs bytes. */
const GZIP_FACTOR_MAX = 1_032;

/** Estimates what a parsed body takes in memory, in bytes. */
export const parsedBytes = ({ bytes, parts }: { bytes: number; parts: number }): number =>
  bytes + parts * PART_BYTES;

/** The most that a packed body can inflate to, in bytes. */
export const inflatedMax = (packedBytes: number, limit: number): number =>
  Math.min(limit, packedBytes * GZIP_FACTOR_MAX);

/** Memory of one request's body: `hold` replaces what it held before. */
export type BodyHold = {
  /** @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY when the bodies in memory have become too large */
  hold(bytes: number): void;
  release(): void;
};

type Limits = { ownerMax: number; max: number; ownerFree: number };

const TENANTS: Limits = { ownerMax: TENANT_MAX_BYTES, max: TENANTS_MAX_BYTES, ownerFree: TENANT_FREE_BYTES };
const OUTSIDERS: Limits = {
  ownerMax: OUTSIDERS_MAX_BYTES,
  max: OUTSIDERS_MAX_BYTES,
  ownerFree: OUTSIDER_FREE_BYTES,
};

class Pool {
  readonly #limits: Limits;
  readonly #byOwner = new Map<string, number>();
  #bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  open(owner: string): BodyHold {
    const { ownerMax, max, ownerFree } = this.#limits;
    let held = 0;
    const change = (bytes: number): void => {
      this.#add(owner, bytes - held);
      held = bytes;
    };
    return {
      hold: (bytes) => {
        // One body alone is always taken.
        const others = (this.#byOwner.get(owner) ?? 0) - held;
        const ownMax = this.#bytes - held + bytes > max ? ownerFree : ownerMax;
        if (others > 0 && others + bytes > ownMax)
          throw retryLater("too many large bodies are worked on at once: try again", "SERVER_BUSY");
        change(bytes);
      },
      release: () => change(0),
    };
  }

  #add(owner: string, bytes: number): void {
    this.#bytes += bytes;
    const own = (this.#byOwner.get(owner) ?? 0) + bytes;
    if (own > 0) this.#byOwner.set(owner, own);
    else this.#byOwner.delete(owner);
  }
}

/**
 * Bounds the memory of the bodies that a process receives and works on. A few bytes of gzip may become
 * megabytes of JSON, and these ten times as much when they are parsed. What callers without a tenant send is
 * counted by itself: anybody may send from many addresses.
 */
export class BodyMemory {
  readonly #ofTenants = new Pool(TENANTS);
  readonly #ofOutsiders = new Pool(OUTSIDERS);

  /** Returns what one request of a caller holds, which is nothing yet. */
  open(caller: Caller, ip: string): BodyHold {
    const pool = "tenantId" in caller ? this.#ofTenants : this.#ofOutsiders;
    return pool.open(ownerOf(caller, ip));
  }
}
