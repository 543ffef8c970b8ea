import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

const compress = promisify(gzip);
/** A job has time: this is a good deal smaller than what is compressed as it is sent. */
const LEVEL = { level: constants.Z_DEFAULT_COMPRESSION };
/** Bytes of a file that are compressed as one piece. */
const PIECE_BYTES = 1024 * 1024;

/** A file in the database: pieces of gzip, which one after the other are gzip as well (RFC 1952, 2.2). */
export type FileRef = { projectId: string; id: string };

/** Adds text to the end of a file. */
export class PieceWriter {
  readonly #work: Work;
  readonly #file: FileRef;
  #waiting: string[] = [];
  #chars = 0;
  /** Bytes of the file that are stored. */
  bytes: number;

  /** @param bytes of the file that were stored before */
  constructor(work: Work, file: FileRef, bytes: number) {
    this.#work = work;
    this.#file = file;
    this.bytes = bytes;
  }

  async add(text: string): Promise<void> {
    this.#waiting.push(text);
    this.#chars += text.length;
    if (this.#chars >= PIECE_BYTES) await this.flush();
  }

  /** Stores what was added. */
  async flush(): Promise<void> {
    const plain = Buffer.from(this.#waiting.join(""));
    this.#waiting = [];
    this.#chars = 0;
    for (let at = 0; at < plain.length; at += PIECE_BYTES)
      await this.#store(await compress(plain.subarray(at, at + PIECE_BYTES), LEVEL));
  }

  async #store(bytes: Buffer): Promise<void> {
    const { projectId, id } = this.#file;
    await sql`
      insert into analytics_export_pieces (project_id, export_id, starts_at, bytes)
      values (${projectId}::uuid, ${id}::uuid, ${this.bytes}::bigint, ${bytes}::bytea)`.execute(
      this.#work.db,
    );
    this.bytes += bytes.length;
  }
}

/** Returns the bytes of a file from `at` to the end of a piece; undefined where it has none. */
export const readPiece = async (
  { db }: Work,
  { projectId, id }: FileRef,
  at: number,
): Promise<Uint8Array | undefined> => {
  const { rows } = await sql<{ bytes: Uint8Array }>`
    select substring(bytes from (${at}::bigint - starts_at)::int + 1) as bytes from analytics_export_pieces
    where project_id = ${projectId}::uuid and export_id = ${id}::uuid and starts_at <= ${at}::bigint
    order by starts_at desc limit 1`.execute(db);
  const bytes = rows[0]?.bytes;
  return bytes && bytes.length > 0 ? bytes : undefined;
};
