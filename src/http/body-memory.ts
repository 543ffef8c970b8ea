import { retryLater } from "../domain/kernel/errors.ts";

const MIB = 1024 * 1024;
/** Maximum bytes of parsed bodies in memory at once, of one tenant or address. */
const OWNER_MAX_BYTES = 96 * MIB;
/** The same of the whole process. */
const PROCESS_MAX_BYTES = 256 * MIB;
/** Whoever has less in memory is served also when the process has too much. */
const OWNER_FREE_BYTES = MIB;
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

/**
 * Bounds the memory of the bodies that a process receives and works on. A few bytes of gzip may become
 * megabytes of JSON, and these ten times as much when they are parsed.
 */
export class BodyMemory {
  readonly #byOwner = new Map<string, number>();
  #bytes = 0;

  /** @param owner tenant or address, see `ownerOf` */
  open(owner: string): BodyHold {
    let held = 0;
    const change = (bytes: number): void => {
      this.#add(owner, bytes - held);
      held = bytes;
    };
    return {
      hold: (bytes) => {
        // One body alone is always taken.
        const others = (this.#byOwner.get(owner) ?? 0) - held;
        const max = this.#bytes - held + bytes > PROCESS_MAX_BYTES ? OWNER_FREE_BYTES : OWNER_MAX_BYTES;
        if (others > 0 && others + bytes > max)
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
