import { createHash } from "node:crypto";

/**
 * Returns a weak validator of a body's bytes: it is the same for the plain and the compressed form.
 */
export const etagOf = (bytes: Buffer): string =>
  `W/"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`;

/** An answer as bytes, to be sent many times. `packed`: compressed, once somebody has asked for that. */
export class ReadyJson {
  readonly plain: Buffer;
  readonly etag: string;
  packed: Promise<Buffer> | undefined;

  /**
   * @param value what is sent, or the bytes of its JSON
   * @param etag for a body whose other fields do not count, such as when it was made
   */
  constructor(value: unknown, etag?: string) {
    this.plain = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
    this.etag = etag ?? etagOf(this.plain);
  }

  /** Bytes that it takes in memory, about: compressed, JSON of this kind has a quarter. */
  get bytes(): number {
    return Math.ceil(1.25 * this.plain.length);
  }
}
